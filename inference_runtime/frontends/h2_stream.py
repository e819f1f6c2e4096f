"""One HTTP/2 stream: whose it is, what may still be received and sent on it."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from inference_runtime.frontends.h2_frames import INTERNAL_ERROR

if TYPE_CHECKING:
    from inference_runtime.frontends.h2_connection import H2Connection

_OF_GRPC: Final = frozenset({"te", "content-type"})
OnData = Callable[["H2Stream", bytes, int, int, int], None]


class StreamHead(Protocol):
    """What a request's header block came to: made once per distinct list of headers, and shared.

    `on_data(stream, buffer, start, stop, last)` is called for every DATA frame, and with an empty one
    where the request ends without; `on_reset(stream)` when the peer, or an error, ended the stream early;
    `on_drained(stream)` when answers that had to wait for a window are out.
    """

    @property
    def malformed(self) -> bool:
        """Not a request of RFC 9113: the stream is reset."""

    @property
    def content_length(self) -> int:
        """-1: not announced."""

    @property
    def patient(self) -> bool:
        """The client may leave the stream open without sending anything."""

    @property
    def on_data(self) -> OnData: ...

    @property
    def on_reset(self) -> Callable[["H2Stream"], None]: ...

    @property
    def on_drained(self) -> Callable[["H2Stream"], None]: ...


class H2Stream:
    """`head`, `call`, `request` and `plan` are the protocol's above; the rest is HTTP/2's own.

    Defaults stand in the class and not in `__slots__`: one stream is made per request, and most of them
    never need most of these.
    """

    protocol = "GRPC"  # as traces call it
    received = 0
    received_before = -1  # when the watch last looked
    ended = False  # the peer has sent all it will
    closed = False  # nothing more may be sent
    out: deque[memoryview] | None = None  # answers that wait for a window
    trailers: bytes | None = None
    call: Any = None
    request: Any = None
    plan: Any = None

    def __init__(
        self,
        connection: "H2Connection",
        stream_id: int,
        head: StreamHead,
        send_window: int,
        receive_window: int,
    ) -> None:
        self.connection = connection
        self.id = stream_id
        self.head: Any = head
        self.send_window = send_window
        self.receive_window = receive_window

    def header(self, name: str) -> str:
        """Of the request; the name in lower case."""
        found: str = self.head.metadata.get(name, "")
        return found

    def give_up(self) -> None:
        """Its answer can not be written: the stream is reset, and the connection's others go on."""
        if not self.closed:
            self.connection.reset(self.id, INTERNAL_ERROR)

    def sent_headers(self) -> list[tuple[str, str]]:
        """What the caller sent, without what belongs to HTTP/2 and gRPC, and without binary values."""
        return [
            (name, value)
            for name, value in self.head.metadata.items()
            if not (name.startswith((":", "grpc-")) or name in _OF_GRPC or name.endswith("-bin"))
        ]
