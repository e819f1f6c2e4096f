"""Requests and answers that go through a link as one frame, because they share a head and come in a row.

What is packed and cut once for all of them is most of what the way between two processes costs. Only
neighbours are joined, so that everything arrives in the order in which it was sent.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from inference_runtime.processes import frames
from inference_runtime.processes.frames import HEAD_SIZE, pack_head
from inference_runtime.processes.link import Link
from inference_runtime.processes.ring import BrokenRing, Bytes
from inference_runtime.spec.messages import InferRequest

_TICKETS: Final = 1 << 32
_MOST: Final = 256  # of one frame
# A frame is closed when it has grown to this: what is large is worth a frame of its own.
_MOST_BYTES: Final = 65536


_STAMPS: Final = [Struct(f"<{count}Q") for count in range(_MOST + 1)]
_TICKET_LISTS: Final = [Struct(f"<{count}I") for count in range(_MOST + 1)]


class Layout:
    """The sizes of the tensors of each request, or answer, of a frame."""

    __slots__ = ("_cutter", "_spans", "most", "sizes", "total")

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.total = sum(sizes)
        small = self.sizes if self.total < frames.VIEW_FROM else ()
        self._cutter = Struct("".join(f"{size}s" for size in small))
        self._spans = [(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes))]
        self.most = max(1, min(_MOST, _MOST_BYTES // (HEAD_SIZE + self.total)))

    def cut(self, message: Bytes, start: int, count: int) -> Sequence[Sequence[Bytes]]:
        """The tensors of each of `count` requests; those that are large are views of the message."""
        total = self.total
        if not total:
            return [[b""] * len(self.sizes)] * count
        source = memoryview(message)[start : start + count * total]
        if total < frames.VIEW_FROM:
            return list(self._cutter.iter_unpack(source))
        return [
            [source[at + first : at + last] for first, last in self._spans]
            for at in range(0, count * total, total)
        ]


class NamedHead:
    """A head that the other side knows by its number, and the sizes of tensors that go without a word."""

    __slots__ = ("layout", "number")

    def __init__(self, number: int, layout: Layout) -> None:
        self.number = number
        self.layout = layout


class RequestGroup:
    """The front end's side. `otherwise` sends a request whose tensors are not as long as its head says."""

    def __init__(
        self, link: Link, otherwise: Callable[[InferRequest, int], None], *, first_ticket: int = 1
    ) -> None:
        self._link = link
        self._otherwise = otherwise
        self._sent: NamedHead | None = None
        self._room = 0
        self._requests: list[InferRequest] = []
        self._parts: list[Bytes] = []
        self._next_ticket = first_ticket
        self.underway: dict[int, InferRequest] = {}  # by ticket, which is a request's plan here

    def add(self, sent: NamedHead, request: InferRequest) -> None:
        if sent is not self._sent or not self._room:
            self._open(sent)
        self._room -= 1
        ticket = self._next_ticket
        self._next_ticket = ticket + 1
        request.plan = ticket
        self.underway[ticket] = request
        self._requests.append(request)
        self._parts += request.data

    def ticket(self, request: InferRequest) -> int:
        """For one that goes alone."""
        ticket = self._next_ticket
        self._next_ticket = ticket + 1 if ticket + 1 < _TICKETS else 1
        request.plan = ticket
        self.underway[ticket] = request
        return ticket

    def _open(self, sent: NamedHead) -> None:
        self._link.hold(self._close)
        self._sent = sent
        self._room = sent.layout.most
        if self._next_ticket + self._room >= _TICKETS:
            self._next_ticket = 1

    def _close(self) -> None:
        sent, requests, parts = self._sent, self._requests, self._parts
        assert sent is not None
        self._sent = None
        self._requests, self._parts = [], []
        layout, count = sent.layout, len(requests)
        if tuple(map(len, parts)) != layout.sizes * count:
            for request in requests:
                self._otherwise(request, request.plan)
            return
        stamps = _STAMPS[count].pack(*[request.received_ns for request in requests])
        size = HEAD_SIZE + len(stamps) + count * layout.total
        head = pack_head(size, frames.INFER, 0, sent.number, requests[0].plan, count)
        self._link.send(head, [stamps, *parts], size)


class AnswerGroup:
    """The executor's side. `otherwise` sends an answer whose tensors are not as long as its head says."""

    def __init__(
        self, link: Link, otherwise: Callable[[NamedHead, int, list[Bytes]], None]
    ) -> None:
        self._link = link
        self._otherwise = otherwise
        self._named: NamedHead | None = None
        self._room = 0
        self._tickets: list[int] = []
        self._parts: list[Bytes] = []

    def add(self, named: NamedHead, ticket: int, data: Sequence[Bytes]) -> None:
        if named is not self._named or not self._room:
            self._link.hold(self._close)
            self._named = named
            self._room = named.layout.most
        self._room -= 1
        self._tickets.append(ticket)
        self._parts += data

    def _close(self) -> None:
        named, tickets, parts = self._named, self._tickets, self._parts
        assert named is not None
        self._named = None
        self._tickets, self._parts = [], []
        layout, count = named.layout, len(tickets)
        if tuple(map(len, parts)) != layout.sizes * count:
            each = len(layout.sizes)
            for index, ticket in enumerate(tickets):
                self._otherwise(named, ticket, parts[index * each : (index + 1) * each])
            return
        numbers = _TICKET_LISTS[count].pack(*tickets)
        size = HEAD_SIZE + len(numbers) + count * layout.total
        head = pack_head(size, frames.ANSWERS, 0, named.number, 0, count)
        self._link.send(head, [numbers, *parts], size)


Read = tuple[Sequence[int], Sequence[Sequence[Bytes]]]


def read_requests(layout: Layout, message: Bytes, start: int, stop: int, count: int) -> Read:
    """When each was received, and its tensors. Raises BrokenRing."""
    middle = start + 8 * count
    if count > _MOST or stop - middle != count * layout.total:
        raise BrokenRing(f"{count} requests of {layout.total} bytes in {stop - start}")
    return _STAMPS[count].unpack_from(message, start), layout.cut(message, middle, count)


def read_answers(layout: Layout, message: Bytes, start: int, stop: int, count: int) -> Read:
    """The ticket of each, and its tensors. Raises BrokenRing."""
    middle = start + 4 * count
    if count > _MOST or stop - middle != count * layout.total:
        raise BrokenRing(f"{count} answers of {layout.total} bytes in {stop - start}")
    return _TICKET_LISTS[count].unpack_from(message, start), layout.cut(message, middle, count)
