"""The metrics front end: `/metrics` in Prometheus' text form on a port of its own, and nothing else."""

from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http_routes import Handler, HttpCall
from inference_runtime.frontends.http_server import HttpOptions, handler_entries, serve_entries
from inference_runtime.frontends.listener import Listener

_TEXT = b"text/plain; charset=utf-8"


async def serve_metrics(
    core: CorePort, *, host: str, port: int, options: HttpOptions | None = None
) -> Listener:
    """Raises Unavailable when the port can not be had."""

    def metrics(call: HttpCall) -> HttpReply:
        return HttpReply(core.metrics_text(), content_type=_TEXT)

    table: list[tuple[str, str, Handler]] = [
        ("GET", "/metrics", metrics),
        ("GET", "/metrics/", metrics),
    ]
    entries = handler_entries(table, 0)
    return await serve_entries(entries, host, port, options or HttpOptions(), core.log)
