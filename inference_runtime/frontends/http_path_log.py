"""The log line of each HTTP request, for when `log_verbose_level` asks for it."""

import logging

from inference_runtime.frontends.http1_application import Route
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_head import RequestHead1
from inference_runtime.frontends.http1_reply import HttpReply

_log = logging.getLogger(__name__)


class LoggedRoute:
    """Another route, and a line for each of its requests."""

    __slots__ = ("_route",)

    def __init__(self, route: Route) -> None:
        self._route = route

    @property
    def body_limit(self) -> int:
        return self._route.body_limit

    def run(
        self, connection: Http1Connection, head: RequestHead1, buffer: bytes, start: int, stop: int
    ) -> None:
        _log.debug("HTTP request: %s %s", head.method, head.path)
        self._route.run(connection, head, buffer, start, stop)

    def gone(self, connection: Http1Connection) -> None:
        self._route.gone(connection)

    def too_large(self, size: int) -> HttpReply:
        return self._route.too_large(size)
