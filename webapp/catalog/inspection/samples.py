"""Runs the samples a person gave with the upload and compares the answers they expect.

JSON in the v2 infer form: {"inputs": [...], "expected": [...], "tolerance": 0.001}, a list of
these, or {"samples": [...]}. Or .npz: arrays named like inputs are fed, those named like outputs
are expected.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from webapp.catalog.inspection.running import Arrays, differences, numpy_type, run
from webapp.catalog.inspection.session import ort_sentence
from webapp.catalog.inspection.subject import (
    CheckFailed,
    Outcome,
    Subject,
    Tensor,
    passed,
    skipped,
)

_TOLERANCE = 1e-3
_MOST_SAMPLES = 100
_FORM = (
    'Samples are JSON like {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", '
    '"data": [1, 2, 3, 4]}], "expected": [...]}, or an .npz with arrays named like the inputs.'
)


@dataclass(frozen=True, slots=True)
class Sample:
    feeds: Arrays
    expected: Arrays
    tolerance: float


def samples(subject: Subject) -> Outcome:
    name = subject.assignment.samples_name
    if not name:
        return skipped("No samples were given.")
    read = _read(subject, subject.work / "samples", name)
    compared = 0
    for number, sample in enumerate(read, start=1):
        try:
            answer = run(subject, sample.feeds)
        except Exception as problem:  # noqa: BLE001  (the library raises many kinds)
            raise CheckFailed(
                f"Sample {number} of {len(read)} fails: {ort_sentence(problem)}",
                "Correct the sample, or the model, and upload again.",
            ) from None
        if wrong := differences(sample.expected, answer, sample.tolerance):
            output, gap = next(iter(wrong.items()))
            how = "another shape or value" if gap == float("inf") else f"a difference of {gap:.4g}"
            raise CheckFailed(
                f"Sample {number}: output {output} has {how} (tolerance {sample.tolerance:g}).",
                "The export changed the answers, or the expectation is wrong. Fix one of them, "
                'or widen "tolerance", and upload again.',
            )
        compared += len(sample.expected)
    said = f"{_count(compared, 'output')} as expected" if compared else "no answer was expected"
    return passed(f"{_count(len(read), 'sample')} answered; {said}.")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _read(subject: Subject, path: Path, name: str) -> list[Sample]:
    try:
        if name.lower().endswith(".npz"):
            return [_from_npz(subject, path)]
        parsed = json.loads(path.read_bytes())
    except (ValueError, OSError, KeyError) as problem:
        raise CheckFailed(f"The samples file {name} does not read: {problem}", _FORM) from None
    rows = parsed.get("samples", [parsed]) if isinstance(parsed, dict) else parsed
    if not isinstance(rows, list) or not rows or len(rows) > _MOST_SAMPLES:
        raise CheckFailed(f"The samples file holds no list of 1 to {_MOST_SAMPLES} samples.", _FORM)
    return [_from_json(subject, row, number) for number, row in enumerate(rows, start=1)]


def _from_npz(subject: Subject, path: Path) -> Sample:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    inputs = {row.name: row for row in subject.inputs}
    outputs = {row.name for row in subject.outputs}
    odd = sorted(set(arrays) - set(inputs) - outputs)
    if odd:
        raise CheckFailed(
            f"The samples hold {odd[0]!r}, which is no input or output of the model.", _FORM
        )
    feeds = {name: _typed(arrays[name], inputs[name]) for name in inputs if name in arrays}
    _complete(feeds, inputs, 1)
    return Sample(feeds, {name: arrays[name] for name in arrays if name in outputs}, _TOLERANCE)


def _from_json(subject: Subject, row: Any, number: int) -> Sample:
    if not isinstance(row, dict) or not isinstance(row.get("inputs"), list):
        raise CheckFailed(f'Sample {number} has no list "inputs".', _FORM)
    inputs = {tensor.name: tensor for tensor in subject.inputs}
    outputs = {tensor.name: tensor for tensor in subject.outputs}
    feeds = dict(_tensor(entry, inputs, number) for entry in row["inputs"])
    _complete(feeds, inputs, number)
    wanted = row.get("expected") or [
        entry for entry in row.get("outputs") or [] if isinstance(entry, dict) and "data" in entry
    ]
    expected = dict(_tensor(entry, outputs, number) for entry in wanted)
    try:
        tolerance = float(row.get("tolerance", _TOLERANCE))
    except (TypeError, ValueError):
        raise CheckFailed(f"Sample {number}: tolerance is no number.", _FORM) from None
    return Sample(feeds, expected, tolerance)


def _tensor(
    entry: Any, known: dict[str, Tensor], number: int
) -> tuple[str, np.ndarray[Any, np.dtype[Any]]]:
    name = entry.get("name") if isinstance(entry, dict) else None
    tensor = known.get(name) if isinstance(name, str) else None
    if tensor is None:
        raise CheckFailed(
            f"Sample {number} names {name!r}; the model has {', '.join(known) or 'nothing'}.", _FORM
        )
    datatype = entry.get("datatype", tensor.datatype)
    if datatype != tensor.datatype:
        raise CheckFailed(
            f"Sample {number}: {tensor.name} is given as {datatype}, the model wants "
            f"{tensor.datatype}.",
            "Correct the datatype in the sample.",
        )
    try:
        array = _array(entry.get("data"), tensor.datatype)
        return tensor.name, array.reshape(entry.get("shape", array.shape))
    except (ValueError, TypeError, OverflowError, AttributeError) as problem:
        raise CheckFailed(
            f"Sample {number}: {tensor.name} does not read: {problem}", _FORM
        ) from None


def _array(data: Any, datatype: str) -> np.ndarray[Any, np.dtype[Any]]:
    if datatype == "BF16":
        bits = np.asarray(data, dtype=np.float32).view(np.uint32)
        return (bits >> 16).astype(np.uint16)
    return np.array(data, dtype=numpy_type(datatype))


def _typed(array: np.ndarray[Any, Any], tensor: Tensor) -> np.ndarray[Any, Any]:
    kind = numpy_type(tensor.datatype)
    if array.dtype.kind in "SU" and tensor.datatype == "BYTES":
        return array.astype(object)
    if array.dtype != kind:
        raise CheckFailed(
            f"{tensor.name} is {array.dtype} in the samples, the model wants {tensor.datatype}.",
            f"Save it with .astype({str(kind)!r}).",
        )
    return array


def _complete(feeds: Arrays, inputs: dict[str, Tensor], number: int) -> None:
    missing = sorted(set(inputs) - set(feeds))
    if missing:
        raise CheckFailed(f"Sample {number} lacks input {missing[0]!r}.", _FORM)
