"""Makes inputs nobody gave: shapes with the gaps filled sensibly, values every model should stand."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from webapp.catalog.inspection.running import Arrays, numpy_type
from webapp.catalog.inspection.subject import Subject, Tensor

# Sizes tried for dimensions that may vary: short sequences first, then what pictures need.
_SIZES = (1, 32, 64, 224, 16)
_LARGEST_ELEMENTS = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Attempt:
    size: int  # what free dimensions were set to
    zeros: bool  # integers all 0, the one index every table has


def first_axis_varies(tensors: list[Tensor]) -> bool:
    return bool(tensors) and all(row.shape[:1] == (-1,) for row in tensors)


def guesses(subject: Subject) -> bool:
    """Whether generated inputs may be wrong in a way that is not the model's fault."""
    return has_free_dimensions(subject) or any(
        row.datatype == "BYTES" or _is_whole(row) for row in subject.inputs
    )


def has_free_dimensions(subject: Subject) -> bool:
    """The batch axis is not counted."""
    batch = first_axis_varies(subject.inputs)
    return any(-1 in (row.shape[1:] if batch else row.shape) for row in subject.inputs)


def _is_whole(row: Tensor) -> bool:
    return row.datatype.startswith(("INT", "UINT"))


def attempts(subject: Subject) -> Iterator[Attempt]:
    whole = any(_is_whole(row) for row in subject.inputs)
    for size in _SIZES if has_free_dimensions(subject) else _SIZES[:1]:
        yield Attempt(size, zeros=False)
        if whole:
            yield Attempt(size, zeros=True)


def feeds(subject: Subject, attempt: Attempt, *, batch: int) -> Arrays | None:
    """Inputs for one attempt; None when they would be absurdly large."""
    batched = first_axis_varies(subject.inputs)
    rng = np.random.default_rng(7)
    made: Arrays = {}
    for row in subject.inputs:
        shape = [attempt.size if dim < 0 else dim for dim in row.shape]
        if batched:
            shape[0] = batch
        if np.prod(shape, dtype=np.float64) > _LARGEST_ELEMENTS:
            return None
        made[row.name] = _values(row.datatype, tuple(shape), rng, zeros=attempt.zeros)
    return made


def _values(
    datatype: str, shape: tuple[int, ...], rng: np.random.Generator, *, zeros: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    kind = numpy_type(datatype)
    if datatype == "BYTES":
        return np.full(shape, "a", dtype=object)
    if datatype == "BF16":
        return np.full(shape, 0x3F00, dtype=kind)  # the bits of 0.5
    if datatype.startswith("FP"):
        return rng.random(shape).astype(kind)
    if zeros:
        return np.zeros(shape, dtype=kind)
    return rng.integers(0, 2, shape).astype(kind)
