"""What stands behind HTTP/1.1 connections: routes, and the memory of heads that came before."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from inference_runtime.frontends import http1_head
from inference_runtime.frontends.http1_head import RequestHead1
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http1_watch import HttpTimeouts
from inference_runtime.frontends.memory_budget import MemoryBudget
from inference_runtime.protocol.memo import Memo

if TYPE_CHECKING:
    from inference_runtime.frontends.http1_connection import Http1Connection

_HEADS: Final = 4096
_HEADS_BYTES: Final = 8 << 20
_HEAD_SIZE: Final = 4096  # larger heads are read anew each time


class Route(Protocol):
    """What a request's head came to."""

    @property
    def body_limit(self) -> int: ...

    def run(
        self,
        connection: "Http1Connection",
        head: RequestHead1,
        buffer: bytes,
        start: int,
        stop: int,
    ) -> None:
        """`buffer[start:stop]` is the body. Answers now or later, once, by one of `reply`, `send`."""

    def gone(self, connection: "Http1Connection") -> None:
        """The client left before it was answered."""

    def too_large(self, size: int) -> HttpReply: ...


class Router(Protocol):
    def route(self, head: RequestHead1) -> Route: ...


class Known:
    """A head with its route: what is remembered for the bytes of a head.

    `plain`: HTTP/1.1 and stays open, so that the answer needs no Connection header. `sized`: the body has a
    length, and one that the route takes. `size`: of the head, in bytes.
    """

    __slots__ = ("head", "length", "plain", "route", "run", "size", "sized")

    def __init__(self, head: RequestHead1, route: Route, size: int) -> None:
        self.head = head
        self.size = size
        self.route = route
        self.run = route.run
        self.length = head.length
        self.plain = head.keep_alive and not head.old
        self.sized = 0 <= head.length <= route.body_limit


class HttpShared:
    """What all connections of one server share."""

    def __init__(self, router: Router, budget: MemoryBudget, timeouts: HttpTimeouts) -> None:
        self._router = router
        self._wrap: Callable[[Route], Route] | None = None
        self.budget = budget
        self.timeouts = timeouts
        self.heads: Memo[bytes, Known] = Memo(limit_count=_HEADS, limit_bytes=_HEADS_BYTES)

    def wrap_routes(self, wrap: Callable[[Route], Route] | None) -> None:
        """From the next request on, every route goes through `wrap`."""
        if wrap is not self._wrap:
            self._wrap = wrap
            self.heads.clear()

    def known(self, raw: bytes) -> Known:
        head = http1_head.parse(raw)
        route = self._router.route(head)
        known = Known(head, route if self._wrap is None else self._wrap(route), len(raw))
        if len(raw) <= _HEAD_SIZE:
            self.heads.put(raw, known, 3 * len(raw))
        return known
