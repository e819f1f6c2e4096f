"""The tensors a benchmark sends: given in the protocol's JSON form, or made from the signature."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webapp.core.errors import InvalidInput
from webapp.runtime_client.types import Tensor

MAX_TENSOR_BYTES = 256 * 1024 * 1024
_FREE_AXIS = 16  # for an axis the signature leaves open, such as tokens
_NUMPY = {
    "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BF16": np.float32, "BYTES": np.object_,
}  # fmt: skip


def generated(
    signature: Sequence[Mapping[str, Any]], *, batch_size: int, batched: bool
) -> list[Tensor]:
    """Seeded values of the signature's datatypes and shapes. The first axis is the batch's.

    Whole numbers are 0 and 1: valid as flags, token ids and small indices alike.
    """
    random = np.random.default_rng(0)
    return [_tensor(entry, batch_size if batched else None, random) for entry in signature]


def _tensor(entry: Mapping[str, Any], batch: int | None, random: np.random.Generator) -> Tensor:
    shape = [int(size) for size in entry["shape"]]
    if batch is not None and shape:
        shape[0] = batch
    shape = [_FREE_AXIS if size < 0 else size for size in shape]
    datatype = str(entry["datatype"])
    return Tensor(str(entry["name"]), datatype, _values(datatype, shape, random))


def _values(datatype: str, shape: list[int], random: np.random.Generator) -> NDArray[Any]:
    if datatype == "BYTES":
        words = np.empty(shape, np.object_)
        words.fill(b"switchyard")
        return words
    dtype = _NUMPY[datatype]
    if datatype in {"FP16", "FP32", "FP64", "BF16"}:
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)


def given(inputs: object) -> list[Tensor]:
    """Tensors from `[{"name","datatype","shape","data"}]`. Raises InvalidInput naming the entry."""
    if not isinstance(inputs, list) or not inputs:
        raise _refused("inputs: expected a list of tensors as in a v2 inference request.")
    return [_given(index, entry) for index, entry in enumerate(inputs)]


def _given(index: int, entry: object) -> Tensor:
    where = f"inputs[{index}]"
    if not isinstance(entry, dict) or {"name", "datatype", "shape", "data"} - entry.keys():
        raise _refused(f"{where}: needs name, datatype, shape and data.")
    dtype = _NUMPY.get(str(entry["datatype"]))
    if dtype is None:
        raise _refused(f"{where}: datatype {entry['datatype']!r} is not one of {sorted(_NUMPY)}.")
    try:
        if dtype is np.object_:
            flat = np.array([str(item).encode() for item in np.ravel(entry["data"])], np.object_)
        else:
            flat = np.asarray(entry["data"], dtype)
        array = flat.reshape([int(size) for size in entry["shape"]])
    except (ValueError, TypeError, OverflowError) as problem:
        raise _refused(f"{where}: data does not fit {entry['shape']} ({problem}).") from None
    if array.nbytes > MAX_TENSOR_BYTES:
        raise _refused(f"{where}: {array.nbytes} bytes are more than {MAX_TENSOR_BYTES}.")
    return Tensor(str(entry["name"]), str(entry["datatype"]), array)


def _refused(detail: str) -> InvalidInput:
    return InvalidInput(detail, reason="BAD_INPUTS")
