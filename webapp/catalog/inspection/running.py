"""Runs one inference on the loaded session, BF16 included, and says what came out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from inference_runtime.spec.datatypes import BY_WIRE
from webapp.catalog.inspection.subject import Subject

Arrays = dict[str, np.ndarray[Any, Any]]
_ONNX_BFLOAT16 = 16


def run(subject: Subject, feeds: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
    """Outputs by name. BF16 outputs come as an array of the right shape and no values (UINT16 0)."""
    names = [row.name for row in subject.outputs]
    if not any(row.datatype == "BF16" for row in (*subject.inputs, *subject.outputs)):
        return dict(zip(names, subject.session.run(names, dict(feeds)), strict=True))
    import onnxruntime  # noqa: TID251

    datatypes = {row.name: row.datatype for row in subject.inputs}
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _ONNX_BFLOAT16)
        if datatypes[name] == "BF16"
        else onnxruntime.OrtValue.ortvalue_from_numpy(array)
        for name, array in feeds.items()
    }
    results = subject.session.run_with_ort_values(names, values)
    return {
        row.name: np.zeros(result.shape(), np.uint16) if row.datatype == "BF16" else result.numpy()
        for row, result in zip(subject.outputs, results, strict=True)
    }


def numpy_type(datatype: str) -> np.dtype[np.generic]:
    return BY_WIRE[datatype].dtype


def not_finite(outputs: Arrays) -> dict[str, int]:
    """How many NaN or infinite elements each output has; only those that have any."""
    found: dict[str, int] = {}
    for name, array in outputs.items():
        if array.dtype.kind == "f" and (count := int(np.size(array) - np.isfinite(array).sum())):
            found[name] = count
    return found


def differences(one: Arrays, other: Arrays, tolerance: float) -> dict[str, float]:
    """Outputs that differ by more than the tolerance → the largest difference (inf: another shape)."""
    found: dict[str, float] = {}
    for name, left in one.items():
        if name not in other:
            continue
        largest = _largest_difference(left, other[name], tolerance)
        if largest:
            found[name] = largest
    return found


def _largest_difference(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], tolerance: float
) -> float:
    if left.shape != right.shape:
        return float("inf")
    if left.dtype.kind != "f" or right.dtype.kind != "f":
        return 0.0 if _same(left, right) else float("inf")
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    if np.allclose(wide_left, wide_right, rtol=tolerance, atol=tolerance, equal_nan=True):
        return 0.0
    with np.errstate(invalid="ignore"):
        gap = np.abs(wide_left - wide_right)
    return float(np.nanmax(gap)) if np.isfinite(gap).any() else float("inf")


def _same(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    if left.dtype.kind in "OSU" or right.dtype.kind in "OSU":
        return [_text(item) for item in left.ravel()] == [_text(item) for item in right.ravel()]
    return bool(np.array_equal(left, right))


def _text(item: Any) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
