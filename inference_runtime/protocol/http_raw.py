"""The raw-binary request: a body without JSON that is the data of the model's only input, batch 1."""

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import byte_strings
from inference_runtime.protocol.http_codec import HttpInfer
from inference_runtime.protocol.request_heads import RequestHeads
from inference_runtime.protocol.request_parameters import RequestParameters
from inference_runtime.spec.datatypes import BY_NUMBER
from inference_runtime.spec.messages import Bytes, TensorHead


def decode_raw(
    config: pb.ModelConfig, target: tuple[str, str], body: Bytes, heads: RequestHeads
) -> tuple[HttpInfer, Bytes]:
    """The request and the input's wire bytes. All outputs come back binary."""
    if len(config.input) != 1:
        raise InvalidArgument(
            "Raw request must only have 1 input (found 1) to be deduced but got "
            f"{len(config.input)} inputs in '{target[0]}' model configuration"
        )
    entry = config.input[0]
    row = BY_NUMBER[entry.data_type]
    dims = list(entry.dims)
    data = body
    if row.item_size == 0:
        if dims != [1]:
            raise InvalidArgument(
                f"For BYTE datatype raw input '{entry.name}', the model must have input shape [1]"
            )
        data = byte_strings.pack([bytes(body)])
    elif -1 in dims:
        dims = _deduced(entry.name, dims, len(body), row.item_size)
    shape = (1, *dims) if config.max_batch_size > 0 else tuple(dims)
    tensor = TensorHead(entry.name, row.wire, shape)
    parameters = RequestParameters(binary_default=True)
    return HttpInfer(heads.head(target, (tensor,), (), parameters), "", [len(data)]), data


def _deduced(name: str, dims: list[int], size: int, item_size: int) -> list[int]:
    if dims.count(-1) > 1:
        raise InvalidArgument(
            f"The shape of the raw input '{name}' can not be deduced because there are more than one "
            "variable-sized dimension"
        )
    item = item_size
    for dim in dims:
        item *= dim if dim != -1 else 1
    # A size that is no multiple is found by the size check that every request goes through.
    return [dim if dim != -1 else (size // item if item else 0) for dim in dims]
