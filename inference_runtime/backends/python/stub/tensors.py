"""The Tensor of models: a name, and an array or the bytes it was sent as, whichever is there."""

from __future__ import annotations

from typing import Any

import numpy as np

from inference_runtime.backends.python.stub import byte_tensors, dlpack
from inference_runtime.backends.python.stub.errors import TritonModelException
from inference_runtime.backends.python.wire.datatypes import BY_DTYPE, DTYPES, NUMBERS

_STRIDED = (
    "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
    "supported."
)


class Tensor:
    __slots__ = ("__weakref__", "_array", "_data", "_datatype", "_name", "_shape")

    def __init__(self, name: str, numpy_array: Any, /) -> None:
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        array = np.asarray(numpy_array)
        datatype = BY_DTYPE.get(array.dtype)
        if datatype is None:
            array, datatype = _as_known(array)
        if not array.flags.c_contiguous:
            array = array.copy(order="C")
        self._name = name
        self._datatype = datatype
        self._shape = array.shape
        self._array: Any = array
        self._data: Any = None

    @classmethod
    def received(cls, name: str, datatype: str, shape: Any, data: memoryview) -> Tensor:
        """A view of bytes that came from the server."""
        tensor = cls.__new__(cls)
        tensor._name = name
        tensor._datatype = datatype
        tensor._shape = tuple(shape)
        tensor._array = None
        tensor._data = data
        return tensor

    @classmethod
    def from_dlpack(cls, name: str, obj: Any, /) -> Tensor:
        try:
            array, bfloat16 = dlpack.take(obj)
        except Exception as error:
            raise TritonModelException(f"{error}") from error
        if not array.flags.c_contiguous:
            raise TritonModelException(_STRIDED)
        tensor = cls(name, array)
        if bfloat16:
            tensor._datatype = "BF16"
        return tensor

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        """None for BF16, which numpy does not know."""
        return None if self._datatype == "BF16" else self._numpy()

    def triton_dtype(self) -> int:
        return NUMBERS[self._datatype]

    def shape(self) -> list[int]:
        return list(self._shape)

    def is_cpu(self) -> bool:
        return True

    def to_dlpack(self) -> Any:
        if self._datatype == "BYTES":
            raise TritonModelException("DLPack does not have support for string tensors.")
        array = self._numpy()
        if not array.flags.writeable:
            array = array.copy()  # numpy exports no array that others may not write to
        return dlpack.export(array, bfloat16=self._datatype == "BF16")

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __repr__(self) -> str:
        return f"Tensor({self._name!r}, {self._datatype}, {list(self._shape)})"

    # What the stub itself needs.

    @property
    def datatype(self) -> str:
        return self._datatype

    def wire(self) -> Any:
        """The bytes that travel."""
        if self._array is None:
            return self._data
        if self._datatype == "BYTES":
            return byte_tensors.join(self._array)
        return self._array.reshape(-1).view(np.uint8).data

    def _numpy(self) -> Any:
        if self._array is None:
            self._array = self._decode()
        return self._array

    def _decode(self) -> Any:
        if self._datatype == "BYTES":
            return byte_tensors.deserialize_bytes_tensor(self._data).reshape(self._shape)
        if self._datatype == "BOOL":
            # Any non-zero byte is true on the wire, but numpy expects 0 or 1.
            return (np.frombuffer(self._data, np.uint8) != 0).reshape(self._shape)
        return np.frombuffer(self._data, DTYPES[self._datatype]).reshape(self._shape)


def _as_known(array: Any) -> tuple[Any, str]:
    if array.dtype.kind in "SU":
        return array.astype(np.object_), "BYTES"
    little = array.dtype.newbyteorder("<")
    if little in BY_DTYPE:
        return array.astype(little), BY_DTYPE[little]
    raise TritonModelException("NumPy dtype is not supported.")
