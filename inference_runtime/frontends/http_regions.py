"""The HTTP routes of shared memory: register, status, unregister, for both kinds of memory."""

from inference_runtime.errors import InvalidArgument
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http_routes import Handler, HttpCall
from inference_runtime.frontends.peer import is_loopback
from inference_runtime.protocol import region_codec
from inference_runtime.shared_memory.regions import RegionKind


class RegionHandlers:
    def __init__(self, core: CorePort) -> None:
        self._regions = core.regions

    def table(self) -> list[tuple[str, str, Handler]]:
        return [
            *self._rows(RegionKind.SYSTEM, self._register_system),
            *self._rows(RegionKind.CUDA, self._register_cuda),
        ]

    def _rows(self, kind: RegionKind, register: Handler) -> list[tuple[str, str, Handler]]:
        def status(call: HttpCall) -> HttpReply:
            name = call.arguments.get("r", "")
            local = is_loopback(call.transport)
            return HttpReply(
                region_codec.status_json(self._regions.status(kind, name, local=local))
            )

        def unregister(call: HttpCall) -> HttpReply:
            self._regions.check_client(local=is_loopback(call.transport))
            self._regions.unregister(kind, call.arguments.get("r", ""))
            return HttpReply()

        base = f"/v2/{kind.value}sharedmemory"
        rows = [("GET", "/status", status), ("POST", "/register", register)]
        rows.append(("POST", "/unregister", unregister))
        return [
            (method, base + place + end, handler)
            for place in ("", "/region/{r}")
            for method, end, handler in rows
        ]

    def _register_system(self, call: HttpCall) -> HttpReply:
        self._regions.check_client(local=is_loopback(call.transport))
        name = _name(call, RegionKind.SYSTEM)
        self._regions.register_system(name, *region_codec.read_system(call.body))
        return HttpReply()

    async def _register_cuda(self, call: HttpCall) -> HttpReply:
        self._regions.check_client(local=is_loopback(call.transport))
        name = _name(call, RegionKind.CUDA)
        await self._regions.register_cuda(name, *region_codec.read_cuda(call.body))
        return HttpReply()


def _name(call: HttpCall, kind: RegionKind) -> str:
    if "r" not in call.arguments:
        raise InvalidArgument(
            f"'region name' is necessary to register {kind.value} shared memory region"
        )
    return call.arguments["r"]
