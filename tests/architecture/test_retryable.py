"""`retryable` promises that the same call can succeed later by itself: one row per error code.

A new code fails here until somebody has decided what to promise for it.
"""

import ast
from pathlib import Path

import pytest

from webapp.core import errors, problems
from webapp.core.errors import ControlPlaneError
from webapp.core.problems import problem_of
from webapp.core.runtime_faults import RefusedByRuntime

ROOT = Path(__file__).resolve().parents[2]

# Only the statuses for which a promise is thinkable; all others never are retryable.
PASSES: dict[tuple[int, str], bool] = {
    (409, "CONFIG_IN_PROGRESS"): True,  # another edit is being applied
    (409, "CONFIG_REFUSED"): False,
    (409, "CONTRACT_CHANGED"): False,
    (409, "DEPLOYED"): False,
    (409, "DEPLOYMENT_IN_PROGRESS"): True,
    (409, "FOREIGN_MODEL"): False,
    (409, "IDEMPOTENT_ANSWER_NOT_KEPT"): False,
    (409, "IDEMPOTENT_CALL_RUNNING"): True,
    (409, "ILLEGAL_MOVE"): False,
    (409, "LAST_ADMIN"): False,
    (409, "LOAD_FAILED"): False,
    (409, "MODEL_BUSY"): True,  # a version is being checked
    (409, "MODEL_DEPLOYED"): False,
    (409, "MODEL_EXISTS"): False,
    (409, "NOT_DEPLOYED"): False,
    (409, "NO_STABLE"): False,
    (409, "NO_VERSION"): False,
    (409, "OPERATION_ENDED"): False,
    (409, "PARTS_MISSING"): False,
    (409, "ROLLOUT_ACTIVE"): True,  # it ends
    (409, "ROLLOUT_MOVED"): False,  # look at it, and decide anew
    (409, "ROLLOUT_STATE"): False,
    (409, "RUNTIME_EMBEDDED"): False,
    (409, "RUNTIME_EXISTS"): False,
    (409, "RUNTIME_IN_USE"): False,
    (409, "RUNTIME_LACKS_EXTENSION"): False,
    (409, "RUNTIME_LACKS_TRAFFIC"): False,
    (409, "RUNTIME_NEEDED"): False,
    (409, "RUNTIME_UNREACHABLE"): True,
    (409, "RUNTIME_WITHOUT_TRAFFIC_TABLES"): False,
    (409, "SAME_VERSION"): False,
    (409, "STABLE_UNAVAILABLE"): True,  # the reconciler loads it again
    (409, "TOO_MANY_BENCHMARKS"): True,
    (409, "TRAFFIC_CHANGED"): False,
    (409, "UNDEPLOYED"): False,
    (409, "UPLOAD_NOT_OPEN"): False,
    (409, "USERNAME_TAKEN"): False,
    (409, "VERSION_HAS_TRAFFIC"): False,
    (409, "VERSION_IN_USE"): False,
    (409, "VERSION_NOT_LOADED"): True,  # it is being loaded
    (409, "VERSION_NOT_PUBLISHED"): False,
    (409, "VERSION_NOT_READY"): False,  # the error itself says so while its checks run
    (409, "VERSION_STATE"): False,
    (429, "LOGIN_LOCKED"): True,
    (429, "THROTTLED"): True,
    (429, "TOO_MANY_OPEN_UPLOADS"): True,
    (500, "INTERNAL"): False,
    (500, "NOTHING_ANSWERED"): False,
    (500, "SUBJECT_GONE"): False,
    (502, "RUNTIME_REFUSED"): False,
    (503, "DISK_FULL"): True,  # sweeps give room back
    (503, "LEASE_LOST"): True,
    (503, "MODEL_BUSY"): True,
    (503, "NO_EMBEDDED_RUNTIME"): True,
    (503, "RUNTIME_UNREACHABLE"): True,
    (503, "UNLOAD_UNFINISHED"): True,
}
# Raised with a reason that is not written out where it is raised.
ELSEWHERE = {(429, "THROTTLED")}


def _kinds() -> dict[str, type[ControlPlaneError]]:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, ControlPlaneError)
    }
    return kinds | {"RefusedByRuntime": RefusedByRuntime}


KINDS = _kinds()


def _raised() -> set[tuple[int, str]]:
    found = set()
    for path in (ROOT / "webapp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id=name), keywords=keywords) if name in KINDS:
                    for keyword in keywords:
                        match keyword:
                            case ast.keyword(arg="reason", value=ast.Constant(value=str(reason))):
                                found.add((KINDS[name].status, reason))
    known = {(status, reason) for _, status, _, reason in problems._REASONS}
    return found | known | {(500, "INTERNAL")}


RAISED = sorted(_raised())


def _retryable(status: int, reason: str) -> bool:
    error = ControlPlaneError("x", reason=reason)
    error.status = status
    answer = problem_of(error).body()["retryable"]
    assert isinstance(answer, bool)
    return answer


@pytest.mark.parametrize(("status", "reason"), RAISED)
def test_only_what_passes_by_itself_is_retryable(status: int, reason: str) -> None:
    expected = PASSES.get((status, reason)) if status in {409, 429} or status >= 500 else False
    assert _retryable(status, reason) is expected


def test_the_table_has_no_row_for_an_error_nobody_raises() -> None:
    assert set(PASSES) - ELSEWHERE <= set(RAISED)


def test_an_error_may_say_better() -> None:
    error = errors.Conflict("x", reason="VERSION_NOT_READY", retryable=True)
    assert problem_of(error).body()["retryable"] is True
