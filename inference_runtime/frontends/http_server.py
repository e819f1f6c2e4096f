"""The HTTP front end: the v2 protocol and our own extension on one port."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inference_runtime.frontends.core_port import CorePort, InferenceCore
from inference_runtime.frontends.h2_limits import INT32_MAX
from inference_runtime.frontends.header_forwarding import HeaderPattern, forwarding
from inference_runtime.frontends.http1_application import HttpShared, Route
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_head import RequestHead1
from inference_runtime.frontends.http1_watch import HttpTimeouts
from inference_runtime.frontends.http_admin import AdminHandlers
from inference_runtime.frontends.http_generate import (
    GenerateService,
    KvCacheBlocks,
    generate_entries,
)
from inference_runtime.frontends.http_infer import InferService
from inference_runtime.frontends.http_path_log import LoggedRoute
from inference_runtime.frontends.http_regions import RegionHandlers
from inference_runtime.frontends.http_routes import (
    Arguments,
    Entry,
    Handler,
    HandlerRoute,
    MakeRoute,
    RouteTable,
    segments,
)
from inference_runtime.frontends.http_settings import SettingsHandlers
from inference_runtime.frontends.http_switchyard import SwitchyardHandlers
from inference_runtime.frontends.listener import Listener
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.frontends.restrictions import Restrictions
from inference_runtime.telemetry.logs import LogSettings, RuntimeLog

MAX_INPUT_BYTES = 67108864
Row = tuple[str, str, Handler]  # method, path, handler


@dataclass(frozen=True, slots=True)
class HttpOptions:
    reuse_port: bool = False
    max_connections: int = 10_000
    max_input_bytes: int = MAX_INPUT_BYTES  # --http-max-input-size
    max_body_bytes: int = (
        INT32_MAX  # with the binary tensors, which the option above does not bound
    )
    unfinished_bytes: int = 4 << 30  # of bodies that have not fully arrived, over all connections
    timeouts: HttpTimeouts = field(default_factory=HttpTimeouts)
    restrictions: Restrictions = field(default_factory=dict)  # --http-restricted-api
    forwarded: HeaderPattern | None = None  # --http-header-forward-pattern


async def serve_http(
    core: CorePort, *, host: str, port: int, options: HttpOptions | None = None
) -> Listener:
    """Raises Unavailable when the port can not be had."""
    return await serve_rows(
        core,
        handler_rows(core),
        host=host,
        port=port,
        options=options or HttpOptions(),
        kv_cache_blocks=core.kv_cache_blocks,
    )


def handler_rows(core: CorePort) -> list[Row]:
    """All routes but those of inference."""
    return [
        *AdminHandlers(core).table(),
        *SwitchyardHandlers(core).table(),
        *SettingsHandlers(core).table(),
        *RegionHandlers(core).table(),
    ]


async def serve_rows(
    core: InferenceCore,
    rows: Sequence[Row],
    *,
    host: str,
    port: int,
    options: HttpOptions,
    kv_cache_blocks: KvCacheBlocks = dict,
) -> Listener:
    """Inference by the core, everything else by the handlers of `rows`."""
    core = forwarding(core, options.forwarded)
    infer = InferService(
        core, max_input_bytes=options.max_input_bytes, max_body_bytes=options.max_body_bytes
    )
    limit = options.max_input_bytes
    entries = handler_entries(rows, limit)
    entries += _infer_entries(infer)
    entries += generate_entries(GenerateService(core, kv_cache_blocks, max_input_bytes=limit))
    return await serve_entries(entries, host, port, options, core.log)


async def serve_entries(
    entries: Sequence[Entry], host: str, port: int, options: HttpOptions, log: RuntimeLog
) -> Listener:
    listener = Listener(options.max_connections)
    budget = MemoryBudget(options.unfinished_bytes)
    shared = HttpShared(RouteTable(entries, options.restrictions), budget, options.timeouts)

    def verbosity(settings: LogSettings) -> None:
        shared.wrap_routes(LoggedRoute if settings.verbose_level else None)
        for connection in listener.connections:
            connection.whole = None  # it knows a route as it was

    log.listen(verbosity)
    await listener.start(
        lambda: Http1Connection(shared, listener), host, port, reuse_port=options.reuse_port
    )
    return listener


def handler_entries(rows: Sequence[Row], body_limit: int) -> list[Entry]:
    return [
        Entry(method, segments(path), _handler_route(handler, body_limit))
        for method, path, handler in rows
    ]


def _handler_route(handler: Handler, body_limit: int) -> MakeRoute:
    return lambda head, arguments: HandlerRoute(handler, arguments, body_limit)


def _infer_entries(infer: InferService) -> list[Entry]:
    def make(head: RequestHead1, arguments: Arguments) -> Route:
        return infer.route(arguments["m"], arguments.get("v", ""), head)

    return [
        Entry("POST", segments("/v2/models/{m}/infer"), make),
        Entry("POST", segments("/v2/models/{m}/versions/{v}/infer"), make),
    ]
