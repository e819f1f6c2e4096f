"""One ModelStreamInfer stream that is open, and the places of its answers."""

from collections import deque
from collections.abc import Sequence

from inference_runtime.frontends.grpc_messages import MessageReader
from inference_runtime.frontends.grpc_packing import Packing
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.spec.messages import Bytes, InferRequest


class StreamCall:
    """One open stream. `slots` holds a place per request, in order; answers leave from its front.

    `free` counts the requests of decoupled models, which wait for nobody. `reading`: a large message is with
    a thread, and the ones behind it are `held`. `packing`: answers on their way out, where they are compressed.
    """

    __slots__ = (
        "complete",
        "failed",
        "free",
        "held",
        "packing",
        "reader",
        "reading",
        "requests",
        "slots",
        "started",
        "strict",
    )

    def __init__(self, reader: MessageReader, strict: bool) -> None:
        self.reader = reader
        self.strict = strict
        self.started = False  # headers are out
        self.complete = False  # the client has sent all it will, and all of it has been taken up
        self.failed = False
        self.free = 0
        self.reading = False
        self.held: deque[tuple[bytes, bool]] = deque()
        self.packing = Packing()
        self.slots: deque[Slot] = deque()
        self.requests: set[InferRequest] = set()


class Slot:
    """Where the answer to one request waits for those before it. Context of the request."""

    protocol = H2Stream.protocol
    __slots__ = ("accepted", "free", "parts", "stream")

    def __init__(self, stream: H2Stream) -> None:
        self.stream = stream
        self.parts: Sequence[Bytes] | None = None
        self.accepted = False  # the core has it and did not refuse it at once
        self.free = False  # of a decoupled model: not in the order of the stream any more

    def header(self, name: str) -> str:
        return self.stream.header(name)

    def sent_headers(self) -> list[tuple[str, str]]:
        return self.stream.sent_headers()
