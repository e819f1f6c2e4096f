"""The classification extension: the top k of an output as `value:index[:label]` strings."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import byte_strings
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import Bytes, TensorHead

_ELEMENT_LIMIT: Final = 1_000_000
_UNRANKABLE: Final = frozenset({"BOOL", "FP16", "BF16", "BYTES"})


def classify(
    output: TensorHead, data: Bytes, class_count: int, labels: Sequence[str], batching: bool
) -> tuple[TensorHead, bytes]:
    """The BYTES tensor that replaces `output`; the index counts within one item of the batch."""
    if output.datatype in _UNRANKABLE:
        raise InvalidArgument(
            f"class result not available for output due to unsupported type '{output.datatype}'"
        )
    values = np.frombuffer(data, BY_WIRE[output.datatype].dtype)
    if len(values) > _ELEMENT_LIMIT:
        raise InvalidArgument(
            f"classification output tensor too large: {len(values)} elements, the limit is {_ELEMENT_LIMIT}"
        )
    rows = output.shape[0] if batching and output.shape else 1
    width = len(values) // rows if rows else 0
    count = min(class_count, width)
    texts: list[bytes] = []
    for row in values.reshape(rows, width):
        # Reversed twice around a stable sort: descending, and of equals the lower index first.
        order = width - 1 - np.argsort(row[::-1], kind="stable")[::-1][:count]
        texts.extend(_text(row[index], int(index), labels) for index in order)
    shape = (rows, count) if batching else (count,)
    return TensorHead(output.name, "BYTES", shape), byte_strings.pack(texts)


def _text(value: np.generic, index: int, labels: Sequence[str]) -> bytes:
    number = f"{value:.6f}" if value.dtype.kind == "f" else str(value)
    label = labels[index] if index < len(labels) else ""
    return (f"{number}:{index}:{label}" if label else f"{number}:{index}").encode()
