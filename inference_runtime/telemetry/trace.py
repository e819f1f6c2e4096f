"""One traced request: what happened to it and when, and how that is written down."""

import json
import logging
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inference_runtime.errors import RuntimeFault
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import (
    Answer,
    Done,
    InferRequest,
    InferResponse,
    TensorHead,
)
from inference_runtime.spec.model_identity import bare_name
from inference_runtime.spec.tensors import to_array
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.trace_settings import TENSORS, TIMESTAMPS, TraceValues

logger = logging.getLogger(__name__)

Finished = Callable[["Trace"], None]
Moment = tuple[str, int]  # name and monotonic nanoseconds

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
# By the protocol a request came in with: when its bytes came in, when its answer goes out.
_RECEIVED: Final = {
    "HTTP": ("HTTP_RECV_START", "HTTP_RECV_END"),
    "GRPC": ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END"),
}
_SENT: Final = {
    "HTTP": ("HTTP_SEND_START", "HTTP_SEND_END"),
    "GRPC": ("GRPC_SEND_START", "GRPC_SEND_END"),
}


@dataclass(frozen=True, slots=True)
class SpanLink:
    """The span of the caller that a request belongs to, in hexadecimal."""

    trace_id: str
    span_id: str


def read_traceparent(text: str) -> SpanLink | None:
    """Of a W3C `traceparent` header; None when it is none."""
    match = _TRACEPARENT.fullmatch(text.strip())
    if match is None or match[1] == "ff" or not int(match[2], 16) or not int(match[3], 16):
        return None
    return SpanLink(match[2], match[3])


class Trace:
    """Stands between a request and its caller: takes its answers, notes when they came, hands them on."""

    __slots__ = (
        "_clock", "_done", "_finished", "_partial", "id", "link", "model_name", "model_version",
        "moments", "owner", "parent", "protocol", "request", "request_id", "span", "tensors", "values",
    )  # fmt: skip

    def __init__(
        self,
        id_: int,
        values: TraceValues,
        owner: str,
        *,
        clock: Callable[[], int],
        finished: Finished,
    ) -> None:
        self.id = id_
        self.values = values
        self.owner = owner
        self._clock = clock
        self._finished = finished
        self._done: Done | None = None
        self._partial: Done | None = None
        self.link: SpanLink | None = None  # to the caller's span
        self.span: SpanLink | None = None  # of the model's part of it, once somebody asked
        self.parent: Trace | None = None  # of the request that this one is part of
        self.request: InferRequest | None = None  # while it is not answered
        self.protocol = ""
        self.model_name = ""
        self.model_version = ""
        self.request_id = ""
        self.moments: list[Moment] = []
        self.tensors: list[tuple[str, TensorHead, bytes]] = []

    @property
    def size(self) -> int:
        return sum(len(data) for _, _, data in self.tensors)

    def begin(self, request: InferRequest, protocol: str) -> None:
        self._done, request.done = request.done, self._ended
        if request.partial is not None and TENSORS in self.values.levels:
            self._partial, request.partial = request.partial, self._responded
        self.request = request
        self.protocol = protocol
        self.request_id = request.id
        self.model_name = request.head.model_name
        received_ns = request.received_ns
        self._note(*((name, received_ns) for name in _RECEIVED.get(protocol, ())))
        self._note(("REQUEST_START", self._clock()))
        self._keep("TENSOR_QUEUE_INPUT", request.head.inputs, request.data)

    def model_span(self) -> SpanLink:
        """The identity of the span that is the model's."""
        if self.span is None:
            if self.parent is not None:
                trace_id = self.parent.model_span().trace_id
            else:
                trace_id = self.link.trace_id if self.link is not None else secrets.token_hex(16)
            self.span = SpanLink(trace_id, secrets.token_hex(8))
        return self.span

    def queued(self) -> None:
        """The scheduler has it; unless it has been answered already."""
        if self._done is not None:
            self._note(("QUEUE_START", self._clock()))

    def _responded(self, request: InferRequest, answer: Answer) -> None:
        if isinstance(answer, InferResponse):
            self._keep("TENSOR_BACKEND_OUTPUT", answer.head.outputs, answer.data)
        if self._partial is not None:
            self._partial(request, answer)

    def _ended(self, request: InferRequest, answer: Answer) -> None:
        ended_ns = self._clock()
        version = request.version
        if version is not None:
            self.model_name, self.model_version = bare_name(version.name), version.number_text
            if isinstance(answer, InferResponse):
                self._executed(request, version.stats.latest_execution)
                self._keep("TENSOR_BACKEND_INPUT", request.head.inputs, request.data)
                self._keep("TENSOR_BACKEND_OUTPUT", answer.head.outputs, answer.data)
        self._note(("INFER_RESPONSE_COMPLETE", ended_ns), ("REQUEST_END", ended_ns))
        done, self._done = self._done, None
        names = _SENT.get(self.protocol)
        if names is not None:
            self._note((names[0], self._clock()))
        try:
            if done is not None:
                done(request, answer)
        finally:
            if names is not None:
                self._note((names[1], self._clock()))
            self._finished(self)

    def _executed(self, request: InferRequest, times: ExecutionTimes | None) -> None:
        # What is older than the request was for others: this one came out of the cache.
        if times is None or times.started_ns < request.received_ns:
            return
        self._note(
            ("COMPUTE_START", times.started_ns),
            ("COMPUTE_INPUT_END", times.gathered_ns),
            ("COMPUTE_OUTPUT_START", times.inferred_ns),
            ("COMPUTE_END", times.finished_ns),
        )

    def _note(self, *moments: Moment) -> None:
        if TIMESTAMPS in self.values.levels:
            self.moments.extend(moments)

    def _keep(self, activity: str, heads: Sequence[TensorHead], data: Sequence[Any]) -> None:
        if TENSORS not in self.values.levels:
            return
        try:
            for head, part in zip(heads, data, strict=False):
                if isinstance(part, (bytes, bytearray, memoryview)):  # and not in shared memory
                    self.tensors.append((activity, head, bytes(part)))
        except Exception:
            # Of memory there may be too little for a copy: that costs the trace, and not the request.
            logger.exception("tensors of a request could not be traced")

    def rows(self) -> list[dict[str, Any]]:
        """As tritonserver's trace file has it."""
        head: dict[str, Any] = {"id": self.id, "model_name": self.model_name}
        head["model_version"] = int(self.model_version or -1)
        if self.parent is not None:
            head["parent_id"] = self.parent.id
        if self.request_id:
            head["request_id"] = self.request_id
        rows = [head]
        if self.moments:
            stamps = [{"name": name, "ns": ns} for name, ns in self.moments]
            rows.append({"id": self.id, "timestamps": stamps})
        for activity, tensor, data in self.tensors:
            rows.append(
                {
                    "id": self.id,
                    "activity": activity,
                    "tensor": {
                        "name": tensor.name,
                        "data": tensor_text(tensor, data),
                        "shape": ",".join(map(str, tensor.shape)),
                        "dtype": tensor.datatype,
                    },
                }
            )
        return rows


def tensor_text(tensor: TensorHead, data: bytes) -> str:
    """The elements, separated by commas; strings are quoted."""
    if tensor.datatype not in BY_WIRE:
        return ""
    try:
        elements = to_array(tensor.datatype, tensor.shape, data).ravel().tolist()
    except (ValueError, RuntimeFault):
        return ""  # it was refused for being of another size
    if tensor.datatype == "BYTES":
        return ",".join(
            json.dumps(element.decode("utf-8", "backslashreplace")) for element in elements
        )
    return ",".join(map(str, elements))
