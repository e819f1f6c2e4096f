"""Smoke inference: generated inputs alone and as a batch of two, and what the answers look like."""

import statistics
import time

import numpy as np

from webapp.catalog.inspection.generated import (
    Attempt,
    attempts,
    feeds,
    first_axis_varies,
    guesses,
    has_free_dimensions,
)
from webapp.catalog.inspection.running import Arrays, differences, not_finite, run
from webapp.catalog.inspection.session import advice, ort_sentence, peak_memory_bytes
from webapp.catalog.inspection.subject import (
    CheckFailed,
    Outcome,
    Subject,
    Tensor,
    passed,
    warned,
)

_SUGGESTED_BATCH = 8
_BATCH_TOLERANCE = 1e-3
_SAMPLE_HINT = "Give real samples with the upload to have this version tried on them."
_TIMED_RUNS = 5
_TIMED_LIMIT_NS = 2_000_000_000


def smoke(subject: Subject) -> Outcome:
    subject.metadata |= {"batchable": False, "suggested_max_batch_size": 0}
    first = _first_answer(subject)
    if isinstance(first, Outcome):
        return first
    attempt, alone = first
    milliseconds = _time(subject, attempt)
    subject.metadata |= {
        "smoke_ms": round(milliseconds, 3),
        "peak_memory_bytes": peak_memory_bytes(),
    }
    free = f", free dimensions at {attempt.size}" if has_free_dimensions(subject) else ""
    notes = [f"Answered in {milliseconds:,.3g} ms on one thread{free}"]
    remarks = [_batch(subject, attempt, notes), _numbers(alone), _shapes(subject, alone)]
    remarks = [remark for remark in remarks if remark]
    detail = "; ".join(notes) + "."
    if remarks:
        return warned(" ".join([detail, *remarks]), _SAMPLE_HINT)
    return passed(detail)


def _first_answer(subject: Subject) -> tuple[Attempt, Arrays] | Outcome:
    problem: Exception | None = None
    for attempt in attempts(subject):
        made = feeds(subject, attempt, batch=1)
        if made is None:
            continue
        try:
            return attempt, run(subject, made)
        except Exception as refused:  # noqa: BLE001  (the library raises many kinds)
            problem = problem or refused
    if problem is None:
        return warned("Its inputs are too large to make up.", _SAMPLE_HINT)
    if guesses(subject):
        return warned(f"Made-up inputs did not fit: {ort_sentence(problem)}", _SAMPLE_HINT)
    raise CheckFailed(
        f"It loads but does not answer inputs of its own shape: {ort_sentence(problem)}",
        advice(problem),
    )


def _batch(subject: Subject, attempt: Attempt, notes: list[str]) -> str:
    """Tries a batch of two; records what was learned; returns a remark when it is odd."""
    if not first_axis_varies(subject.inputs):
        notes.append("no free first axis, so no batching (max_batch_size 0)")
        return ""
    made = feeds(subject, attempt, batch=2)
    if made is None:
        return ""
    try:
        both = run(subject, made)
        alone = run(subject, {name: array[:1] for name, array in made.items()})
    except Exception as problem:  # noqa: BLE001
        return f"A batch of two fails: {ort_sentence(problem)}"
    lone = [name for name, array in both.items() if array.shape[:1] != (2,)]
    if lone:
        notes.append(f"output {lone[0]} has no row per request, so no batching (max_batch_size 0)")
        return ""
    subject.metadata |= {"batchable": True, "suggested_max_batch_size": _SUGGESTED_BATCH}
    subject.outputs = [_free_first_axis(row) for row in subject.outputs]
    notes.append("batches along the first axis")
    rows = {name: array[:1] for name, array in both.items()}
    changed = differences(alone, rows, _BATCH_TOLERANCE)
    if changed:
        name, gap = next(iter(changed.items()))
        return (
            f"In a batch, output {name} differs from the answer alone by {gap:.3g}: "
            "answers depend on who else is in the batch."
        )
    return ""


def _free_first_axis(row: Tensor) -> Tensor:
    """Some exporters declare [1] where the file returns one row per request; what it does counts."""
    return Tensor(row.name, row.datatype, (-1, *row.shape[1:])) if row.shape else row


def _numbers(outputs: Arrays) -> str:
    bad = not_finite(outputs)
    if not bad:
        return ""
    name, count = next(iter(bad.items()))
    return f"Output {name} holds {count} NaN or infinite values for made-up inputs."


def _shapes(subject: Subject, outputs: Arrays) -> str:
    for row in subject.outputs:
        shape = np.shape(outputs[row.name])
        fits = len(shape) == len(row.shape) and all(
            declared in (-1, found) for declared, found in zip(row.shape, shape, strict=True)
        )
        if not fits and row.shape:
            return f"Output {row.name} is declared {list(row.shape)} and came as {list(shape)}."
    return ""


def _time(subject: Subject, attempt: Attempt) -> float:
    made = feeds(subject, attempt, batch=1)
    if made is None:
        return 0.0
    spent: list[float] = []
    started = time.monotonic_ns()
    for _ in range(_TIMED_RUNS):
        begun = time.monotonic_ns()
        run(subject, made)
        spent.append((time.monotonic_ns() - begun) / 1e6)
        if time.monotonic_ns() - started > _TIMED_LIMIT_NS:
            break
    return statistics.median(spent)
