"""The route table of the HTTP port: method and path → what serves it."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

from inference_runtime.errors import Internal, RuntimeFault
from inference_runtime.frontends.http1_application import Route
from inference_runtime.frontends.http1_connection import Http1Connection
from inference_runtime.frontends.http1_head import RequestHead1
from inference_runtime.frontends.http1_reply import HttpReply, error_reply, fault_reply
from inference_runtime.frontends.restrictions import Restrictions, http_category

_log = logging.getLogger(__name__)

_RESTRICTED: Final = "This API is restricted, expecting header '%s'"
Arguments = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HttpCall:
    """What a handler gets. `arguments` are the variable parts of the path, "" where absent."""

    head: RequestHead1
    arguments: Arguments
    body: bytes
    transport: Any = None


Handler = Callable[[HttpCall], HttpReply | Awaitable[HttpReply]]
MakeRoute = Callable[[RequestHead1, Arguments], Route]


@dataclass(frozen=True, slots=True)
class Entry:
    """`path`: segments; `{v}` takes digits only, any other `{name}` everything but a slash."""

    method: str
    path: tuple[str, ...]
    make: MakeRoute


class RouteTable:
    """Paths are matched whole and in order."""

    def __init__(self, entries: Sequence[Entry], restrictions: Restrictions | None = None) -> None:
        by_category = restrictions or {}
        self._entries = [(entry, by_category.get(http_category(entry.path))) for entry in entries]

    def route(self, head: RequestHead1) -> Route:
        segments = [unquote(segment) for segment in head.path.split("/")[1:]]
        known_path = False
        for entry, required in self._entries:
            arguments = _match(entry.path, segments)
            if arguments is None:
                continue
            if required is not None and not required.given_in(head.headers):
                return FixedRoute(error_reply(403, _RESTRICTED % required.name))
            if entry.method == head.method:
                return entry.make(head, arguments)
            known_path = True
        if known_path:
            return FixedRoute(error_reply(405, "Method Not Allowed"))
        return FixedRoute(error_reply(404, "Not Found"))


def segments(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[1:])


def _match(pattern: tuple[str, ...], path: Sequence[str]) -> Arguments | None:
    if len(pattern) != len(path):
        return None
    arguments: dict[str, str] = {}
    for wanted, found in zip(pattern, path, strict=True):
        if wanted.startswith("{"):
            if not found or (wanted == "{v}" and not (found.isascii() and found.isdigit())):
                return None
            arguments[wanted[1:-1]] = found
        elif wanted != found:
            return None
    return arguments


class FixedRoute:
    """Answers the same whatever the body."""

    __slots__ = ("_reply", "body_limit")

    def __init__(self, reply: HttpReply) -> None:
        self._reply = reply
        self.body_limit = 0

    def run(
        self, connection: Http1Connection, head: RequestHead1, buffer: bytes, start: int, stop: int
    ) -> None:
        connection.reply(self._reply)

    def gone(self, connection: Http1Connection) -> None:
        """Nothing is under way."""

    def too_large(self, size: int) -> HttpReply:
        return self._reply


_tasks: Final[set[asyncio.Task[None]]] = set()  # the loop itself keeps only weak references


class HandlerRoute:
    """Calls a handler, which answers at once or later."""

    __slots__ = ("_arguments", "_handler", "body_limit")

    def __init__(self, handler: Handler, arguments: Arguments, body_limit: int) -> None:
        self._handler = handler
        self._arguments = arguments
        self.body_limit = body_limit

    def run(
        self, connection: Http1Connection, head: RequestHead1, buffer: bytes, start: int, stop: int
    ) -> None:
        try:
            reply = self._handler(
                HttpCall(head, self._arguments, buffer[start:stop], connection.transport)
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the client waits for an answer
            connection.reply(_refusal(error))
            return
        if inspect.isawaitable(reply):
            task = asyncio.ensure_future(_later(connection, reply))
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)
        else:
            connection.reply(reply)

    def gone(self, connection: Http1Connection) -> None:
        """A load goes on when its client has left: the next one wants to find it done."""

    def too_large(self, size: int) -> HttpReply:
        return error_reply(
            HTTPStatus.BAD_REQUEST,
            f"request JSON size of {size} bytes exceeds the maximum allowed input size of "
            f"{self.body_limit} bytes. Use --http-max-input-size to increase the limit.",
        )


async def _later(connection: Http1Connection, pending: Awaitable[HttpReply]) -> None:
    try:
        reply = await pending
    except Exception as error:  # noqa: BLE001 - as above
        reply = _refusal(error)
    connection.reply(reply)


def _refusal(error: Exception) -> HttpReply:
    if isinstance(error, RuntimeFault):
        return fault_reply(error)
    _log.error("a request could not be answered", exc_info=error)
    return fault_reply(Internal(f"{type(error).__name__}: {error}"))
