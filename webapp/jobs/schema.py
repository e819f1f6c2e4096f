"""Operations in the API's description."""

from typing import Any

from webapp.core.json_schema import (
    OBJECT,
    Schema,
    flag,
    listed,
    maybe,
    moment,
    one_of,
    record,
    shape,
    share,
    text,
    whole,
)
from webapp.jobs.choices import JobKind, JobState

JOB_STATE = one_of(JobState.values)
JOB_KIND = one_of(JobKind.values)
_FIELDS: dict[str, Schema] = {
    "id": text("Follow it at /operations/{id}."),
    "kind": JOB_KIND,
    "state": JOB_STATE,
    "progress": share("How far it has come, 0 to 1."),
    "phase": text("What it does now, in words."),
    "target": text("The path of what it made or changed.", format="uri-reference"),
    "result": maybe(OBJECT | {"description": "What it found; depends on the kind."}),
    "error": maybe(
        record(
            {
                "reason": text("Stable, UPPER_SNAKE."),
                "detail": text("What happened."),
                "fix": text("What to do."),
            },
            "Set when it failed.",
        )
    ),
    "attempt": whole("Which try this is; 0 before the first.", minimum=0),
    "cancel_requested": flag(),
    "created_at": moment(),
    "started_at": maybe(moment()),
    "ended_at": maybe(moment()),
}
OPERATION = shape("Operation", _FIELDS, "Long work that can be followed and cancelled.")
OPERATIONS = listed("OperationPage", OPERATION)


def operation_with(name: str, **extra: Any) -> Schema:
    """An operation that says more of what it makes."""
    return shape(name, _FIELDS | extra)
