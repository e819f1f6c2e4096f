"""External data: every location lies in the version's folder, exists, and holds what its tensor needs.

Runs before the ONNX checker and ONNX Runtime, which follow these locations themselves.
"""

from pathlib import Path
from typing import Any

from inference_runtime.spec.layout import OutsideRoot, resolve_inside
from webapp.catalog.inspection.amounts import elements, size
from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject, passed
from webapp.catalog.inspection.traversal import all_tensors

_KEYS = frozenset({"location", "offset", "length", "checksum"})
_HINT = (
    'Save it again with onnx.save(model, "model.onnx", save_as_external_data=True, '
    'location="model.onnx.data") and pack both files.'
)
_HALF_BYTE_TYPES = frozenset({"UINT4", "INT4", "FLOAT4E2M1"})


def external_data(subject: Subject) -> Outcome:
    count = 0
    total = 0
    files: set[str] = set()
    for tensor in all_tensors(subject.proto):
        if not tensor.external_data and not _is_external(tensor):
            continue
        location, length = _check(tensor, subject.content)
        count += 1
        total += length
        files.add(location)
    if not count:
        return passed("All weights are inside model.onnx.")
    subject.metadata["external_data"] = sorted(files)
    return passed(f"{count} tensors, {size(total)} in {', '.join(sorted(files)[:4])}.")


def _is_external(tensor: Any) -> bool:
    from onnx import TensorProto

    return bool(tensor.data_location == TensorProto.EXTERNAL)


def _check(tensor: Any, folder: Path) -> tuple[str, int]:
    """The location of one tensor and how many bytes it takes there, or CheckFailed."""
    name = tensor.name or "unnamed"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    odd = sorted(set(entries) - _KEYS)
    if odd:
        raise CheckFailed(f"Tensor {name!r} has unknown external-data key {odd[0]!r}.", _HINT)
    location = entries.get("location", "")
    path = _inside(folder, location, name)
    offset = _number(entries.get("offset", "0"), name, "offset")
    available = path.stat().st_size
    needed = _bytes_of(tensor)
    length = _number(entries["length"], name, "length") if "length" in entries else needed
    if length != needed:
        raise CheckFailed(
            f"Tensor {name!r} needs {needed:,} bytes, its external data says {length:,}.", _HINT
        )
    if offset + length > available:
        raise CheckFailed(
            f"Tensor {name!r} reaches to byte {offset + length:,} of {location}, "
            f"which has {available:,}.",
            "The data file is cut off or from another export. " + _HINT,
        )
    return location, length


def _inside(folder: Path, location: str, tensor_name: str) -> Path:
    try:
        path = resolve_inside(folder, location)
    except OutsideRoot:
        raise CheckFailed(
            f"Tensor {tensor_name!r} keeps its data at {location!r}, outside the model's folder.",
            _HINT,
        ) from None
    if not path.is_file():
        raise CheckFailed(
            f"Tensor {tensor_name!r} keeps its data in {location!r}, which is not in the upload.",
            "Upload an archive that holds the model and its data file side by side.",
        )
    return path


def _number(text: str, tensor_name: str, key: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise CheckFailed(f"Tensor {tensor_name!r} has external-data {key} {text!r}.", _HINT)
    return int(text)


def _bytes_of(tensor: Any) -> int:
    import onnx

    kind = onnx.TensorProto.DataType.Name(tensor.data_type)
    if kind in ("STRING", "UNDEFINED"):
        raise CheckFailed(f"Tensor {tensor.name!r} of {kind} cannot be external.", _HINT)
    if min(tensor.dims, default=0) < 0:
        raise CheckFailed(f"Tensor {tensor.name!r} has a negative dimension.", _HINT)
    count = elements(list(tensor.dims))
    if kind in _HALF_BYTE_TYPES:
        return (count + 1) // 2
    return count * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
