"""The life of a front-end process: told what to serve, it serves until it is told to stop or is alone.

It listens on the same ports as its siblings; the kernel gives each connection to one of them.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import orjson

from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends.grpc_context import GrpcContext
from inference_runtime.frontends.grpc_head import Method
from inference_runtime.frontends.grpc_methods import inference_methods
from inference_runtime.frontends.grpc_server import serve_methods
from inference_runtime.frontends.http_server import serve_rows
from inference_runtime.frontends.listener import Listener
from inference_runtime.lifecycle.free_memory import set_up_memory
from inference_runtime.processes import frames
from inference_runtime.processes.calls import Calls, ForwardedMethod, http_rows
from inference_runtime.processes.catalogue import Catalogue
from inference_runtime.processes.link import Link, LinkFds
from inference_runtime.processes.options_text import read_grpc_options, read_http_options
from inference_runtime.processes.remote_core import RemoteCore
from inference_runtime.telemetry.logs import LogSettings, RuntimeLog

_log = logging.getLogger(__name__)

_LINE_LIMIT: Final = 1 << 20  # of what the executor tells
_COLLECT_EVERY: Final = 20_000  # allocations, as in the executor


async def run(descriptors: Mapping[str, int]) -> None:
    """`descriptors`: control, asking, memory, wake_executor, wake_front_end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the executor says when it is over
    control = socket.socket(fileno=descriptors["control"])
    reader, writer = await asyncio.open_unix_connection(sock=control, limit=_LINE_LIMIT)
    config = orjson.loads(await reader.readline() or _leave())
    log = RuntimeLog(LogSettings(**config["log"]))
    log.install()
    set_up_memory(config["malloc"])
    front_end = _FrontEnd(config, descriptors, log)
    try:
        ports = await front_end.start()
    except RuntimeFault as fault:
        _tell(writer, {"failed": fault.text, "listener": front_end.starting})
        await writer.drain()
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, 20, 50)
    _tell(writer, {"listening": ports})
    closing: set[asyncio.Task[None]] = set()
    while line := await _line(reader):
        told = orjson.loads(line)
        listener = front_end.listeners[told["listener"]]
        if told["do"] == "stop":
            listener.stop_accepting()
        else:
            closing.add(asyncio.create_task(_close(listener, told, writer)))
    _leave()


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except OSError:
        return b""


async def _close(listener: Listener, told: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
    await listener.close(told["grace"])
    _tell(writer, {"closed": told["listener"]})


def _tell(writer: asyncio.StreamWriter, value: Any) -> None:
    writer.write(orjson.dumps(value) + b"\n")


def _leave() -> NoReturn:
    """Without its executor a front end has nothing to say, and clients go elsewhere the sooner."""
    logging.shutdown()
    os._exit(0)


class _FrontEnd:
    def __init__(
        self, config: Mapping[str, Any], descriptors: Mapping[str, int], log: RuntimeLog
    ) -> None:
        self._config = config
        self.listeners: dict[str, Listener] = {}
        self.starting = ""
        fds = LinkFds(
            *(descriptors[name] for name in ("memory", "wake_executor", "wake_front_end"))
        )
        self._link = Link(fds, executor=False, received=self._received, broken=self._broken)
        asking = socket.socket(fileno=descriptors["asking"])
        catalogue = Catalogue(self._link.page, asking, lost=_leave)
        self._core = RemoteCore(self._link, catalogue, log, propagates=config["propagates"])
        self._calls = Calls(self._link)
        self._core.handle(frames.REPLY, self._calls.replied)

    async def start(self) -> dict[str, int]:
        """Names of listeners → ports. Raises RuntimeFault."""
        self._link.start(asyncio.get_running_loop())
        http, grpc = self._config["http"], self._config["grpc"]
        if http is not None:
            self.starting = "HTTP"
            self.listeners["HTTP"] = await serve_rows(
                self._core,
                http_rows(self._calls, http["rows"]),
                host=http["host"],
                port=http["port"],
                options=read_http_options(http["options"]),
                kv_cache_blocks=self._core.kv_cache_blocks,
            )
        if grpc is not None:
            self.starting = "GRPC"
            self.listeners["GRPC"] = await serve_methods(
                self._core,
                lambda context: self._methods(context, grpc["methods"]),
                host=grpc["host"],
                port=grpc["port"],
                options=read_grpc_options(grpc["options"]),
            )
        return {name: listener.port for name, listener in self.listeners.items()}

    def _methods(self, context: GrpcContext, paths: Sequence[str]) -> dict[bytes, Method]:
        forwarded = {path.encode(): ForwardedMethod(context, self._calls, path) for path in paths}
        return {**inference_methods(context), **forwarded}

    def _received(self, message: Any) -> None:
        self._core.received(message)

    def _broken(self, error: Exception) -> None:
        _log.error("the executor said what can not be: %s", error)
        _leave()
