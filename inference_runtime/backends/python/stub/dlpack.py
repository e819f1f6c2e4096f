"""DLPack by numpy, and around what numpy leaves out: BF16, bare capsules, the name of a used one."""

import ctypes
from typing import Any

import numpy as np

CPU = 1
_BFLOAT = 4
_UINT = 1
_USED = b"used_dlpack"


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor up to its data type, which is all that is looked at."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
    ]


_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetDestructor.argtypes = [ctypes.py_object, ctypes.c_void_p]


class _Holder:
    """A capsule as the object that numpy wants."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0


def export(array: Any, *, bfloat16: bool) -> Any:
    capsule = array.__dlpack__()
    if bfloat16:
        _head(capsule).dtype.code = _BFLOAT
    return capsule


def take(source: Any) -> tuple[Any, bool]:
    """The array of a capsule or of an object with `__dlpack__`, and whether its bits are BF16.

    Raises whatever the producer or numpy raise; a capsule can be taken once.
    """
    capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
    if not _api.PyCapsule_IsValid(capsule, b"dltensor"):
        raise ValueError("the DLPack capsule is not valid, or was used before")
    head = _head(capsule)
    if head.device_type != CPU:
        raise ValueError("only DLPack tensors in CPU memory can be taken")
    bfloat16 = (head.dtype.code, head.dtype.bits) == (_BFLOAT, 16)
    if bfloat16:
        head.dtype.code = _UINT
    array: np.ndarray[Any, Any] = np.from_dlpack(_Holder(capsule))
    # Its destructor looks for the name that numpy has given it; there is nothing left to free.
    _api.PyCapsule_SetDestructor(capsule, None)
    _api.PyCapsule_SetName(capsule, _USED)
    return array, bfloat16


def _head(capsule: Any) -> Any:
    return _Tensor.from_address(_api.PyCapsule_GetPointer(capsule, b"dltensor"))
