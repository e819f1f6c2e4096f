"""Runs the checks in order and reports each: started, then its outcome. Stops at the first hard "no"."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from webapp.catalog.inspection.names import CHECK_NAMES, NOT_REACHED, TITLES
from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject

Report = Callable[[dict[str, Any]], None]

# Where each check lives; imported when its turn comes, so that a bad archive costs no ONNX Runtime.
_MODULES: dict[str, str] = {
    "size_and_quota": "files",
    "digest": "files",
    "archive": "files",
    "no_pickle": "files",
    "layout": "layout",
    "config": "config",
    "onnx_parse": "graph",
    "external_data": "external_data",
    "opset": "graph",
    "operators": "graph",
    "onnx_checker": "graph",
    "load": "session",
    "signature": "session",
    "config_fit": "comparisons",
    "contract": "comparisons",
    "smoke": "smoke",
    "samples": "samples",
}


def inspect(subject: Subject, report: Report) -> bool:
    """True when no check failed."""
    stopped_by = ""
    for name in CHECK_NAMES:
        if stopped_by:
            report(_outcome(name, Outcome("skipped", f"{NOT_REACHED}: {stopped_by} failed.")))
            continue
        report({"started": name})
        outcome = _run(name, subject)
        report(_outcome(name, outcome))
        if outcome.status == "failed":
            stopped_by = TITLES[name]
    return not stopped_by


def _run(name: str, subject: Subject) -> Outcome:
    try:
        step = getattr(import_module(f"webapp.catalog.inspection.{_MODULES[name]}"), name)
        outcome: Outcome = step(subject)
        return outcome
    except CheckFailed as failed:
        return Outcome("failed", failed.detail, failed.fix)
    except MemoryError:
        return Outcome(
            "failed",
            f"It needs more than the {subject.assignment.limits.memory_bytes:,} bytes of memory "
            "a check may use.",
            "Upload a smaller model, or raise SWITCHYARD_CHECK_MEMORY_BYTES.",
        )
    except OSError as problem:
        return Outcome(
            "failed",
            f"The disk refused: {problem.strerror or problem}.",
            "Look at the free space of SWITCHYARD_HOME, then upload again.",
        )
    except Exception as problem:  # noqa: BLE001  (hostile bytes may break any library; that is an answer)
        return Outcome(
            "failed",
            f"The check broke on this file: {type(problem).__name__}: {str(problem)[:200]}",
            "If the model works elsewhere, please report this with the file.",
        )


def _outcome(name: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "check": {
            "name": name,
            "status": outcome.status,
            "detail": outcome.detail[:1000],
            "fix": outcome.fix[:500],
        }
    }
