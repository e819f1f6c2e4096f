"""A request against the config of the version it goes to; the same for every protocol. Pure.

What depends on the head alone is worked out once per head, as a RequestPlan; what depends on the bytes
(sizes, the framing of BYTES) is checked for every request. Texts and order of the checks are Triton's.
"""

from collections.abc import Hashable

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.messages import Bytes, InferRequest, RequestHead, TensorHead
from inference_runtime.spec.model_config import ModelConfig, TensorSpec
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.spec.tensors import (
    MAX_ELEMENTS,
    BytesFramingError,
    byte_size,
    count_bytes,
    element_count,
    shape_text,
    split_bytes,
)

_NOTE = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be "
    "prepended to each input shape. If you want to specify the full shape including the batch dim in "
    "your input dims config, try setting max_batch_size to zero. See the model configuration docs for "
    "more info on max_batch_size."
)
_FRAMING = (
    " Every element of a BYTES tensor is preceded by its length, four bytes in little-endian order."
)


def request_label(id_: str) -> str:
    """What Triton puts before a message about a request."""
    return f"[request id: {id_ or '<id_unknown>'}] "


def plan_request(head: RequestHead, config: ModelConfig, id_: str) -> RequestPlan:
    """Raises InvalidArgument with the first thing that is wrong with the head."""
    return _Planner(head, config, request_label(id_)).plan()


class _Planner:
    def __init__(self, head: RequestHead, config: ModelConfig, label: str) -> None:
        self._head = head
        self._config = config
        self._label = label
        self._model = config.name

    def plan(self) -> RequestPlan:
        config = self._config
        given = self._given()
        outputs = self._outputs()
        self._check_presence(given)
        batch_size = self._batch_size()
        for tensor in self._head.inputs:
            self._check_tensor(tensor, config.inputs[config.input_index[tensor.name]])
        sources = tuple(given.get(spec.name, -1) for spec in config.inputs)
        shapes = tuple(self._head.inputs[at].shape if at >= 0 else () for at in sources)
        return RequestPlan(
            batch_size=batch_size,
            sources=sources,
            in_order=sources == tuple(range(len(config.inputs))),
            shapes=shapes,
            byte_sizes=tuple(byte_size(t.datatype, t.shape) for t in self._head.inputs),
            merge_key=_merge_key(config, shapes),
            outputs=outputs,
            output_names=tuple(config.outputs[index].name for index in outputs),
            all_outputs=len(outputs) == len(config.outputs),
        )

    def _fault(self, text: str) -> InvalidArgument:
        return InvalidArgument(self._label + text)

    def _given(self) -> dict[str, int]:
        given: dict[str, int] = {}
        for index, tensor in enumerate(self._head.inputs):
            if tensor.name in given:
                raise self._fault(f"input '{tensor.name}' already exists in request")
            given[tensor.name] = index
        return given

    def _outputs(self) -> tuple[int, ...]:
        """In the config's order, whatever the request's."""
        if not self._head.outputs:
            return tuple(range(len(self._config.outputs)))
        asked: set[int] = set()
        for output in self._head.outputs:
            index = self._config.output_index.get(output.name)
            if index is None:
                raise InvalidArgument(
                    f"unexpected inference output '{output.name}' for model '{self._model}'"
                )
            if index in asked:
                raise self._fault(f"output '{output.name}' already exists in request")
            asked.add(index)
        return tuple(sorted(asked))

    def _check_presence(self, given: dict[str, int]) -> None:
        config = self._config
        required = [spec.name for spec in config.inputs if not spec.optional]
        if not len(required) <= len(given) <= len(config.inputs):
            raise self._fault(self._count_text(given, required))
        for name in given:
            if name not in config.input_index:
                raise InvalidArgument(
                    f"unexpected inference input '{name}' for model '{self._model}'"
                )
        # With optional inputs the count may be right although a required one is missing.
        if any(name not in given for name in required):
            raise self._fault(self._count_text(given, required))

    def _count_text(self, given: dict[str, int], required: list[str]) -> str:
        total = len(self._config.inputs)
        if len(required) == total:
            expected = f"expected {total} inputs"
        else:
            expected = f"expected number of inputs between {len(required)} and {total}"
        missing = [name for name in required if name not in given]
        return (
            f"{expected} but got {len(given)} inputs for model '{self._model}'. Got input(s) "
            f"{_names(sorted(given))}, but missing required input(s) {_names(missing)}. Please provide "
            "all required input(s)."
        )

    def _batch_size(self) -> int:
        if not self._config.batching:
            return 1
        batch_size = -1
        for tensor in self._head.inputs:
            if not tensor.shape:
                raise self._fault(
                    f"input '{tensor.name}' has no shape but model requires batch dimension for "
                    f"'{self._model}'"
                )
            if batch_size >= 0 and tensor.shape[0] != batch_size:
                raise self._fault(
                    f"input '{tensor.name}' batch size does not match other inputs for '{self._model}'"
                )
            batch_size = tensor.shape[0]
        if batch_size > self._config.max_batch_size:
            raise self._fault(
                "inference request batch-size must be <= "
                f"{self._config.max_batch_size} for '{self._model}'"
            )
        if batch_size == 0:
            raise self._fault(f"inference request batch-size must be >= 1 for '{self._model}'")
        return max(batch_size, 1)  # no input at all: every one is optional

    def _check_tensor(self, tensor: TensorHead, spec: TensorSpec) -> None:
        if tensor.datatype != spec.datatype:
            raise self._fault(
                f"inference input '{tensor.name}' data-type is '{tensor.datatype}', but model "
                f"'{self._model}' expects '{spec.datatype}'"
            )
        if any(dim < 0 for dim in tensor.shape):
            raise self._fault(
                f"All input dimensions should be specified for input '{tensor.name}' for model "
                f"'{self._model}', got {shape_text(tensor.shape)}"
            )
        expected = (-1, *spec.dims) if self._config.batching else spec.dims
        if len(expected) != len(tensor.shape) or any(
            want not in (-1, got) for want, got in zip(expected, tensor.shape, strict=True)
        ):
            raise self._fault(
                f"unexpected shape for input '{tensor.name}' for model '{self._model}'. Expected "
                f"{shape_text(expected)}, got {shape_text(tensor.shape)}."
                + (_NOTE if self._config.batching else "")
            )
        if element_count(tensor.shape) > MAX_ELEMENTS:
            raise self._fault(
                f"input '{tensor.name}' for model '{self._model}' has a shape that causes total "
                f"element count to exceed maximum size of {MAX_ELEMENTS}"
            )


def _merge_key(config: ModelConfig, shapes: tuple[tuple[int, ...], ...]) -> Hashable:
    """Requests with equal keys fit into one batch; None where every two requests do."""
    varying = [
        shape[1:]
        for spec, shape in zip(config.inputs, shapes, strict=True)
        if (not spec.fixed and not spec.ragged) or spec.optional
    ]
    return tuple(varying) if config.batching and varying else None


def _names(names: list[str]) -> str:
    return "[" + ",".join(f"'{name}'" for name in names) + "]"


def check_data(request: InferRequest, plan: RequestPlan, *, utf8: bool) -> None:
    """The bytes of a request against its shapes; raises InvalidArgument."""
    head = request.head
    for tensor, data, size in zip(head.inputs, request.data, plan.byte_sizes, strict=True):
        if size < 0:
            _check_strings(request, tensor, data, utf8=utf8)
        elif len(data) != size:
            raise InvalidArgument(
                f"{request_label(request.id)}input byte size mismatch for input '{tensor.name}' for "
                f"model '{head.model_name}'. Expected {size}, got {len(data)}"
            )


def _check_strings(request: InferRequest, tensor: TensorHead, data: Bytes, *, utf8: bool) -> None:
    label, model = request_label(request.id), request.head.model_name
    expected = element_count(tensor.shape)
    try:
        count = count_bytes(data, expected)
    except BytesFramingError as error:
        raise InvalidArgument(
            label + _framing_text(tensor.name, model, error) + _FRAMING
        ) from error
    if count > expected:
        raise InvalidArgument(
            f"{label}unexpected number of string elements {count} for inference input "
            f"'{tensor.name}' for model '{model}', expecting {expected}"
        )
    if count < expected:
        raise InvalidArgument(
            f"{label}expected {expected} string elements for inference input '{tensor.name}' for "
            f"model '{model}', got {count}"
        )
    if utf8:
        _check_text(label, tensor, data, model)


def _framing_text(name: str, model: str, error: BytesFramingError) -> str:
    if error.in_length:
        return (
            f"incomplete string length indicator for inference input '{name}' for model '{model}', "
            f"expecting 4 bytes but only {error.left} bytes available."
        )
    return (
        f"incomplete string data for inference input '{name}' for model '{model}', expecting string "
        f"of length {error.wanted} but only {error.left} bytes available."
    )


def _check_text(label: str, tensor: TensorHead, data: Bytes, model: str) -> None:
    # Here and not in the backend, where the whole batch would have to fail for one request.
    try:
        for element in split_bytes(data):
            element.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{label}inference input '{tensor.name}' for model '{model}' must hold UTF-8 text, which "
            f"is all its backend takes: {error}"
        ) from error
