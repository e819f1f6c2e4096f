"""Reads tensors from a PyTorch checkpoint of the old single-file form, without PyTorch.

The file is a run of pickles (magic, protocol, system facts, state dict, storage keys) followed by
the raw storages. The unpickler builds tensors only: every other global is refused, so a hostile
checkpoint cannot run code.
"""

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_DTYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class _Pending:
    """A tensor whose storage comes later in the file."""

    def __init__(
        self, storage: tuple[str, np.dtype[Any]], offset: int, size: Any, strides: Any
    ) -> None:
        self.key, self.dtype = storage
        self.offset, self.size, self.strides = offset, tuple(size), tuple(strides)

    def view(self, storage: NDArray[Any]) -> NDArray[Any]:
        # Weights converted from TensorFlow are stored transposed, so the strides matter.
        byte_strides = [stride * self.dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(storage[self.offset :], self.size, byte_strides)


def _rebuild(storage: Any, offset: int, size: Any, strides: Any, *_unused: Any) -> _Pending:
    return _Pending(storage, offset, size, strides)


class _TensorUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _DTYPES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint")

    def persistent_load(self, pid: Any) -> Any:
        _kind, storage_type, key, _location, _count, *_view = pid
        return key, _DTYPES[storage_type]


def read_state_dict(path: Path) -> dict[str, NDArray[Any]]:
    """Name → array, for every tensor of the checkpoint."""
    with path.open("rb") as file:
        for _header in range(3):
            _TensorUnpickler(file).load()
        state: dict[str, _Pending] = _TensorUnpickler(file).load()
        keys: list[str] = _TensorUnpickler(file).load()
        dtypes = {tensor.key: tensor.dtype for tensor in state.values()}
        storages = {key: _read_storage(file, dtypes[key]) for key in keys}
    return {name: tensor.view(storages[tensor.key]) for name, tensor in state.items()}


def _read_storage(file: IO[bytes], dtype: np.dtype[Any]) -> NDArray[Any]:
    count = int.from_bytes(file.read(8), "little")
    return np.frombuffer(file.read(count * dtype.itemsize), dtype)
