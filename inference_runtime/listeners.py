"""What listens: HTTP, gRPC and metrics, in this process or, with `--frontends`, in processes of their own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends.grpc_server import serve_grpc
from inference_runtime.frontends.http_server import serve_http
from inference_runtime.frontends.metrics_server import serve_metrics
from inference_runtime.processes.supervisor import FrontEndPlan, FrontEndProcesses, NotServed
from inference_runtime.routing.core import RuntimeCore
from inference_runtime.settings import (
    Listen,
    RuntimeSettings,
    child_environment,
    malloc_variables,
)
from inference_runtime.telemetry.trace_settings import TraceMode

logger = logging.getLogger(__name__)

_SERVICES = {  # as the log calls them
    "HTTP": "HTTPService",
    "GRPC": "GRPCInferenceService",
    "Metrics": "Metrics Service",
}


class FrontEnd(Protocol):
    port: int

    def stop_accepting(self) -> None: ...
    async def close(self, grace_s: float) -> None: ...


Serve = Callable[[Listen], Awaitable[FrontEnd]]


class Listeners:
    def __init__(self, settings: RuntimeSettings) -> None:
        self._settings = settings
        self._opened: list[tuple[Listen, FrontEnd]] = []
        self._processes: FrontEndProcesses | None = None

    async def open(self, core: RuntimeCore) -> None:
        """Returns when all that are enabled listen. Raises NotServed."""
        if self._settings.front_ends:
            self._processes = self._front_end_processes(core)
            ways = self._in_processes(core, self._processes)
        else:
            ways = self._in_this_process(core)
        for listen in self._settings.listens:
            try:
                front_end = await ways[listen.name](listen)
            except RuntimeFault as fault:
                raise NotServed(fault.text, listen.name) from fault
            self._opened.append((listen, front_end))
        if self._processes is not None:
            await self._processes.start()
        for listen, front_end in self._opened:
            service = _SERVICES[listen.name]
            logger.info("Started %s at %s:%d", service, listen.address, front_end.port)

    def stop_accepting_grpc(self) -> None:
        """HTTP answers to the end: that is how it tells that the server is not ready."""
        for listen, front_end in self._opened:
            if listen.name == "GRPC":
                front_end.stop_accepting()

    async def close(self, grace_s: float) -> None:
        await asyncio.gather(*(front_end.close(grace_s) for _, front_end in self._opened))
        if self._processes is not None:
            await self._processes.close()

    def _front_end_processes(self, core: RuntimeCore) -> FrontEndProcesses:
        settings = self._settings
        plan = FrontEndPlan(
            count=settings.front_ends,
            http_options=settings.http_options,
            grpc_options=settings.grpc_options,
            environment=child_environment(),
            malloc=malloc_variables(),
            propagates=settings.traces.mode is TraceMode.OPENTELEMETRY,
        )
        processes = FrontEndProcesses(core, plan, core.unit_headers)
        core.on_change = processes.changed
        return processes

    def _in_processes(self, core: RuntimeCore, processes: FrontEndProcesses) -> dict[str, Serve]:
        async def shared(listen: Listen) -> FrontEnd:
            return processes.listener(listen.name, listen.address, listen.port)

        return {**self._in_this_process(core), "HTTP": shared, "GRPC": shared}

    def _in_this_process(self, core: RuntimeCore) -> dict[str, Serve]:
        async def http(listen: Listen) -> FrontEnd:
            options = self._settings.http_options
            return await serve_http(core, host=listen.address, port=listen.port, options=options)

        async def grpc(listen: Listen) -> FrontEnd:
            options = self._settings.grpc_options
            return await serve_grpc(core, host=listen.address, port=listen.port, options=options)

        async def metrics(listen: Listen) -> FrontEnd:
            return await serve_metrics(core, host=listen.address, port=listen.port)

        return {"HTTP": http, "GRPC": grpc, "Metrics": metrics}
