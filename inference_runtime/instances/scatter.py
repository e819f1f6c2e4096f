"""From a backend's arrays to one response per request: slices of the output, heads that are shared."""

from collections.abc import Hashable, Sequence

from inference_runtime.backends.base import Array
from inference_runtime.errors import Internal
from inference_runtime.instances.batch import Batch
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import Bytes, InferResponse, ResponseHead, TensorHead
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.spec.tensors import client_shape, join_bytes, shape_text, to_wire

Shape = tuple[int, ...]

# Below this many bytes a row is cheaper copied than referred to; above, a slice keeps the output alive.
COPY_BELOW = 512
MAX_HEADS = 1024


class _FixedColumn:
    """An output whose rows have equal sizes: bytes to cut."""

    __slots__ = ("_buffer", "_row_size")

    def __init__(self, datatype: str, array: Array, rows: int) -> None:
        self._row_size = array.nbytes // rows if rows else 0
        if self._row_size <= COPY_BELOW:
            self._buffer: Bytes = array.tobytes()
        else:
            self._buffer = to_wire(datatype, array)

    def whole(self) -> Bytes:
        return self._buffer

    def cut(self, start: int, rows: int) -> Bytes:
        size = self._row_size
        return self._buffer[start * size : (start + rows) * size]

    def cuts(self, count: int, rows: int) -> list[Bytes]:
        size = self._row_size * rows
        if size == 0:
            return [self._buffer] * count
        buffer = self._buffer
        return [buffer[start : start + size] for start in range(0, count * size, size)]


class _BytesColumn:
    """A BYTES output: elements to write one by one."""

    __slots__ = ("_elements", "_row_length")

    def __init__(self, array: Array, rows: int) -> None:
        self._elements: list[bytes] = array.ravel().tolist()
        self._row_length = len(self._elements) // rows if rows else 0

    def whole(self) -> Bytes:
        return join_bytes(self._elements)

    def cut(self, start: int, rows: int) -> Bytes:
        length = self._row_length
        return join_bytes(self._elements[start * length : (start + rows) * length])

    def cuts(self, count: int, rows: int) -> list[Bytes]:
        return [self.cut(number * rows, rows) for number in range(count)]


_Column = _FixedColumn | _BytesColumn


class Scatterer:
    """Splits executions of one version. Safe to share between the threads of its instances."""

    def __init__(self, config: ModelConfig, *, model_name: str, version: int) -> None:
        self._config = config
        self._model_name = model_name
        self._version = str(version)
        self._batching = config.batching
        self._datatypes = tuple(BY_WIRE[spec.datatype] for spec in config.outputs)
        self._heads: dict[Hashable, ResponseHead] = {}

    def wanted(self, batch: Batch) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The config's outputs that at least one request of the batch asks for: indexes and names."""
        if batch.uniform:
            first: RequestPlan = batch.requests[0].plan
            return first.outputs, first.output_names
        asked = {index for request in batch.requests for index in request.plan.outputs}
        indexes = tuple(sorted(asked))
        return indexes, tuple(self._config.outputs[index].name for index in indexes)

    def scatter(
        self, batch: Batch, indexes: tuple[int, ...], arrays: Sequence[Array]
    ) -> list[InferResponse]:
        if len(arrays) != len(indexes):
            raise Internal(
                f"model '{self._model_name}' gave {len(arrays)} outputs where {len(indexes)} were asked for"
            )
        rows = batch.rows
        columns: list[_Column] = []
        shapes: list[Shape] = []
        for index, array in zip(indexes, arrays, strict=True):
            columns.append(self._column(index, array, rows))
            shapes.append(array.shape)
        if not batch.uniform:
            return self._scatter_mixed(batch, indexes, columns, shapes)
        plan: RequestPlan = batch.requests[0].plan
        head = self._head(plan.outputs, plan.batch_size, shapes)
        count = len(batch.requests)
        if count == 1:
            return [InferResponse(head, [column.whole() for column in columns])]
        cuts = [column.cuts(count, plan.batch_size) for column in columns]
        return [InferResponse(head, data) for data in zip(*cuts, strict=True)]

    def _scatter_mixed(
        self,
        batch: Batch,
        indexes: tuple[int, ...],
        columns: Sequence[_Column],
        shapes: Sequence[Shape],
    ) -> list[InferResponse]:
        place = {index: position for position, index in enumerate(indexes)}
        responses = []
        start = 0
        for request in batch.requests:
            plan: RequestPlan = request.plan
            rows = plan.batch_size
            places = [place[index] for index in plan.outputs]
            head = self._head(plan.outputs, rows, [shapes[at] for at in places])
            responses.append(InferResponse(head, [columns[at].cut(start, rows) for at in places]))
            start += rows
        return responses

    def _column(self, index: int, array: Array, rows: int) -> _Column:
        datatype = self._datatypes[index]
        if self._batching and array.shape[:1] != (rows,):
            raise Internal(
                f"output '{self._config.outputs[index].name}' of model '{self._model_name}' has shape "
                f"{shape_text(array.shape)} for a batch of {rows}: its first dimension must be the batch size"
            )
        if array.dtype is not datatype.dtype and array.dtype != datatype.dtype:
            raise Internal(
                f"output '{self._config.outputs[index].name}' of model '{self._model_name}' has data-type "
                f"{array.dtype}, but the config says {datatype.wire}"
            )
        if datatype.item_size == 0:
            return _BytesColumn(array, rows)
        return _FixedColumn(datatype.wire, array, rows)

    def _head(self, outputs: tuple[int, ...], rows: int, shapes: Sequence[Shape]) -> ResponseHead:
        """`shapes` are those of the whole batch; `rows` of them are the request's."""
        tails = tuple([shape[1:] for shape in shapes] if self._batching else shapes)
        key = (outputs, rows, tails)
        head = self._heads.get(key)
        if head is None:
            # Free shapes make endless heads. Two threads may make one twice: either serves.
            if len(self._heads) >= MAX_HEADS:
                self._heads = {}
            head = self._heads[key] = self._new_head(outputs, rows, tails)
        return head

    def _new_head(
        self, outputs: tuple[int, ...], rows: int, tails: tuple[Shape, ...]
    ) -> ResponseHead:
        batching = self._batching
        heads = []
        for index, tail in zip(outputs, tails, strict=True):
            spec = self._config.outputs[index]
            shape = (rows, *tail) if batching else tail
            heads.append(
                TensorHead(spec.name, spec.datatype, client_shape(spec, shape, batching=batching))
            )
        return ResponseHead(self._model_name, self._version, tuple(heads))
