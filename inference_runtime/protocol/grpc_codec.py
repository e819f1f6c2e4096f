"""ModelInferRequest bytes → request head and tensor data, remembering heads by the bytes before the data.

A request's bytes are: fields that make up the head, the id, then the raw tensors. Everything before the
tensors, without the id, is the key of a *plan*. Only requests whose plan is not known are parsed and
validated; a hit is as safe, because the head is a function of exactly these bytes.
"""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import grpc_contents, grpc_parameters
from inference_runtime.protocol.grpc_wire import (
    HEAD_FIELDS,
    ID,
    RAW_INPUT,
    read_varint,
    varint,
)
from inference_runtime.protocol.http_codec import region_plan
from inference_runtime.protocol.memo import Memo
from inference_runtime.protocol.request_heads import RequestHeads
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import Bytes, RequestHead, TensorHead
from inference_runtime.spec.region_span import RegionPlan, RegionSpan

_PLANS: Final = 4096
_PLAN_BYTES: Final = 16 << 20
_KEY_LIMIT: Final = 16384
# Below this a copy of the bytes is cheaper than a view of them.
COPY_BELOW: Final = 8192
# From here on typed contents stop the loop for longer than others should wait.
HEAVY: Final = 1 << 17
_MESSAGE_LIMIT: Final = 2**31 - 1  # of protobuf itself

Split = tuple["InferPlan", str, Sequence[Bytes]]


class InferPlan:
    """A head and how to find its data. `replies` is the front end's: what it wrote for answers to it.

    `prefix` is the request's start when there is no id and all tensors have a fixed size, up to and
    including the first tensor's length; then `total` is the request's size, and `rest` the
    (tag with length, its size, data size) of the further tensors. `framed` is the prefix behind gRPC's own
    five bytes, and `framed_total` the size with these; -1 where the tensors are better not copied.
    `kept`: later requests will find it.
    `regions`: which tensors lie in shared memory; None for the usual request.
    """

    __slots__ = (
        "framed", "framed_size", "framed_total", "head", "kept", "prefix", "prefix_size", "raw_count",
        "regions", "replies", "rest", "size", "total",
    )  # fmt: skip

    def __init__(self, head: RequestHead, regions: RegionPlan | None = None) -> None:
        self.head = head
        self.regions = regions
        self.raw_count = len(head.inputs) - (len(regions.inputs) if regions is not None else 0)
        self.kept = False
        self.replies: dict[Any, Any] = {}
        self.prefix = b""
        self.prefix_size = 0
        self.framed = b""
        self.framed_size = 0
        self.framed_total = -1
        self.total = -1
        self.size = 0
        self.rest: list[tuple[bytes, int, int]] = []

    def learn(self, key: bytes) -> None:
        """Prepares the fast way, if the sizes of all tensors follow from their shapes."""
        self.kept = True
        if self.regions is not None:
            return
        sizes = [_data_size(tensor) for tensor in self.head.inputs]
        if not sizes or -1 in sizes:
            return
        marks = [bytes([RAW_INPUT]) + varint(size) for size in sizes]
        total = len(key) + sum(map(len, marks)) + sum(sizes)
        if total > _MESSAGE_LIMIT:
            return  # a shape that no message can hold
        self.prefix = key + marks[0]
        self.prefix_size = len(self.prefix)
        self.size = sizes[0]
        self.rest = [(m, len(m), size) for m, size in zip(marks[1:], sizes[1:], strict=True)]
        self.total = total
        if self.size <= COPY_BELOW:
            self.framed = b"\x00" + self.total.to_bytes(4, "big") + self.prefix
            self.framed_size = len(self.framed)
            self.framed_total = self.total + 5


def _data_size(tensor: TensorHead) -> int:
    size = BY_WIRE[tensor.datatype].item_size
    for dim in tensor.shape:
        size *= dim
    return size if size > 0 or 0 in tensor.shape else -1


class InferDecoder:
    """One per server; all connections share what was learned."""

    __slots__ = ("_heads", "_plans")

    def __init__(self) -> None:
        self._plans: Memo[bytes, InferPlan] = Memo(limit_count=_PLANS, limit_bytes=_PLAN_BYTES)
        self._heads = RequestHeads()

    def decode(self, buffer: bytes, start: int, end: int, hint: InferPlan | None) -> Split:
        """`buffer[start:end]` is one message; `hint` the plan this client used last. Raises a fault.

        The data may be views of `buffer`.
        """
        if hint is not None and hint.total == end - start and buffer.startswith(hint.prefix, start):
            position = start + hint.prefix_size
            stop = position + hint.size
            if hint.size > COPY_BELOW:
                return self._views(memoryview(buffer), start, end, hint)
            data: list[Bytes] = [buffer[position:stop]]
            for mark, mark_size, size in hint.rest:
                if not buffer.startswith(mark, stop):
                    return self._lookup(buffer, start, end)
                position = stop + mark_size
                stop = position + size
                data.append(buffer[position:stop])
            return hint, "", data
        return self._lookup(buffer, start, end)

    def is_heavy(self, buffer: bytes, start: int, end: int) -> bool:
        """Whether `decode` would take long enough to be worth a thread: a large message, element by element."""
        if end - start <= HEAVY:
            return False
        layout = _layout(buffer, start, end)
        return layout is None or not layout[2]

    def _views(self, view: memoryview, start: int, end: int, plan: InferPlan) -> Split:
        position = start + plan.prefix_size
        stop = position + plan.size
        data: list[Bytes] = [view[position:stop]]
        for mark, mark_size, size in plan.rest:
            if view[stop : stop + mark_size] != mark:
                return self._lookup(view.obj, start, end)  # type: ignore[arg-type]  # it is `buffer`
            position = stop + mark_size
            stop = position + size
            data.append(view[position:stop])
        return plan, "", data

    def _lookup(self, buffer: bytes, start: int, end: int) -> Split:
        layout = _layout(buffer, start, end)
        if layout is None:
            return self._parse(buffer[start:end])
        key, id_, spans = layout
        if not spans and len(key) > _KEY_LIMIT:
            # Typed contents: nothing to find, nothing to keep.
            return self._parse(buffer[start:end])
        plan = self._plans.get(key)
        if plan is None:
            split = self._parse(buffer[start:end])
            if len(key) <= _KEY_LIMIT and len(spans) == split[0].raw_count:
                plan = split[0]
                plan.learn(key)
                self._plans.put(key, plan, 2 * len(key) + 512)
            return split
        if len(spans) < plan.raw_count:
            return self._parse(buffer[start:end])  # which finds the words for it
        view = memoryview(buffer)
        wanted = spans[: plan.raw_count]  # surplus tensors are ignored
        data: list[Bytes] = [
            buffer[first:last] if last - first < COPY_BELOW else view[first:last]
            for first, last in wanted
        ]
        if plan.regions is not None:
            raw = iter(data)
            inputs = range(len(plan.head.inputs))
            data = [b"" if index in plan.regions.inputs else next(raw) for index in inputs]
        return plan, id_, data

    def _parse(self, message: bytes) -> Split:
        try:
            request = pb.ModelInferRequest.FromString(message)
        except DecodeError as error:
            raise InvalidArgument("failed to parse the ModelInferRequest message") from error
        return self.from_message(request)

    def from_message(self, request: pb.ModelInferRequest) -> Split:
        parameters = grpc_parameters.read_request(request.parameters)
        data, spans = _data(request)
        inputs = tuple(
            TensorHead(entry.name, entry.datatype, tuple(entry.shape)) for entry in request.inputs
        )
        outputs = tuple(grpc_parameters.read_output(entry) for entry in request.outputs)
        target = (request.model_name, request.model_version)
        head = self._heads.head(target, inputs, outputs, parameters)
        return InferPlan(head, region_plan(head, spans)), request.id, data


def _layout(buffer: bytes, start: int, end: int) -> tuple[bytes, str, list[tuple[int, int]]] | None:
    """(head bytes without the id, id, spans of the raw tensors); None: not the usual order of fields.

    Without spans the data, if there is any, is inside the head or in shared memory.
    """
    position = start
    id_start = id_end = start
    id_ = ""
    while position < end and buffer[position] != RAW_INPUT:
        tag = buffer[position]
        length, body = read_varint(buffer, position + 1, end)
        if body < 0 or (tag != ID and tag not in HEAD_FIELDS):
            return None
        if tag == ID:
            if id_end > id_start:
                return None
            id_start, id_end = position, body + length
            try:
                id_ = buffer[body:id_end].decode()
            except UnicodeDecodeError:
                return None
        position = body + length
    head_end = position
    spans: list[tuple[int, int]] = []
    while position < end:
        if buffer[position] != RAW_INPUT:
            return None
        length, body = read_varint(buffer, position + 1, end)
        if body < 0:
            return None
        position = body + length
        spans.append((body, position))
    return buffer[start:id_start] + buffer[id_end:head_end], id_, spans


def _data(request: pb.ModelInferRequest) -> tuple[list[Bytes], dict[int, RegionSpan]]:
    """Per input one raw tensor, or typed contents when the request has no raw tensor at all.

    Inputs in shared memory take no part in the order of the raw tensors; their data is empty.
    """
    raw = request.raw_input_contents
    model = request.model_name
    data: list[Bytes] = []
    spans: dict[int, RegionSpan] = {}
    for index, entry in enumerate(request.inputs):
        if entry.datatype not in BY_WIRE:
            raise InvalidArgument(f"invalid datatype for input {entry.name}")
        span = grpc_parameters.read_span(entry)
        if span is not None:
            if entry.HasField("contents"):
                raise InvalidArgument(
                    "unexpected 'content' provided when using shared memory for input tensor "
                    f"'{entry.name}' for model '{model}'"
                )
            spans[index] = span
            data.append(b"")
            continue
        if entry.HasField("contents"):
            if raw:
                raise InvalidArgument(
                    "contents field must not be specified when using raw_input_contents for "
                    f"'{entry.name}' for model '{model}'"
                )
            data.append(grpc_contents.pack(entry, model))
        elif index - len(spans) < len(raw):
            data.append(raw[index - len(spans)])
        else:
            raise InvalidArgument(
                f"unable to find data for input tensor '{entry.name}' for model '{model}' in request."
            )
    return data, spans
