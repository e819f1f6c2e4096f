"""What crosses from a front end to a scheduler and back.

The parts that repeat from request to request (names, datatypes, shapes, parameters) live in a
*head*, which is immutable and shared: a front end memoises heads by the bytes they came from, and
whoever validates a head against a model remembers the verdict by the head's identity. So the price
of strict checking is paid once per distinct head, and a request is one small object.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference_runtime.errors import RuntimeFault
from inference_runtime.spec.backpressure import Backpressure
from inference_runtime.spec.region_span import RegionSpan

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, eq=False)
class TensorHead:
    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RequestedOutput:
    name: str
    class_count: int = 0  # >0: the classification extension
    binary: bool = True  # HTTP only: how the output is to be written
    region: RegionSpan | None = None  # where it goes, in place of the answer
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class RequestHead:
    """Everything of a request that does not change with its data. Compared by identity."""

    model_name: str
    version: str  # "" leaves the choice to the router
    inputs: tuple[TensorHead, ...]
    outputs: tuple[RequestedOutput, ...] = ()  # empty: all of them
    parameters: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    timeout_us: int = 0
    sequence_id: int | str = 0
    sequence_start: bool = False
    sequence_end: bool = False
    binary_default: bool = False  # HTTP: binary_data_output
    empty_final: bool = False  # gRPC streams: tell the end of a decoupled request by itself


class InferRequest:
    """One request. `data[i]` holds the little-endian bytes of `head.inputs[i]`.

    BYTES elements are prefixed by their 4-byte length, BOOL is one byte, BF16 two, as on the wire.
    `done(request, answer)` is called exactly once, on the event loop's thread, with an
    InferResponse or a RuntimeFault. It must not raise; it may be called before `infer` returns.
    A caller that takes several answers sets `partial`, which is called in the same way for each
    answer but the last; without it a decoupled model refuses the request.
    """

    __slots__ = (
        "arm", "backpressure", "cancelled", "context", "data", "deadline_ns", "done", "expires_ns",
        "first_response_ns", "generation", "head", "id", "partial", "plan",
        "received_ns", "responses", "sizes", "state", "times", "traffic_unit", "version",
    )  # fmt: skip

    def __init__(
        self,
        head: RequestHead,
        data: Sequence[Bytes],
        done: "Done",
        context: Any,
        received_ns: int,
        id_: str = "",
    ) -> None:
        self.head = head
        self.data = data
        self.done = done
        self.context = context  # the front end's own: where the answer goes
        self.received_ns = received_ns  # time.monotonic_ns() when the request was complete
        self.id = id_
        self.sizes: tuple[int, ...] | None = None  # lengths of `data`, where the caller knows them
        self.partial: Done | None = None
        self.backpressure: Backpressure | None = None  # with `partial`: whether more is welcome now
        self.deadline_ns = 0  # grpc-timeout; 0: none
        self.cancelled = False
        self.state = (
            0  # how far it got; scheduling.inflight names the values and is the only writer
        )
        self.expires_ns = 0  # when waiting in a queue ends for it; 0: never
        self.traffic_unit = ""  # the header value a sticky traffic table keys on
        self.version: Any = None  # the LoadedVersion it was routed to
        self.plan: Any = None  # spec.request_plan.RequestPlan: how its data meets that version
        self.arm = ""
        self.generation = 0
        self.times: Any = None  # telemetry.durations.ExecutionTimes, once its execution has ended
        self.responses = 0  # how many a decoupled model has given
        self.first_response_ns = 0  # when the first of them came


@dataclass(frozen=True, slots=True, eq=False)
class ResponseHead:
    """Shared by all answers of one shape of one version; a front end memoises what it wrote for it."""

    model_name: str
    model_version: str
    outputs: tuple[TensorHead, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    empty: bool = False  # no response, only word that none follows: the end of a decoupled request


class InferResponse:
    """`data[i]` holds the bytes of `head.outputs[i]`, in the wire form described above."""

    __slots__ = ("data", "head")

    def __init__(self, head: ResponseHead, data: Sequence[Bytes]) -> None:
        self.head = head
        self.data = data


Answer = InferResponse | RuntimeFault
Done = Callable[[InferRequest, Answer], None]
