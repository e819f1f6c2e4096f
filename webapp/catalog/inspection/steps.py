"""Runs the checks in order and reports each: started, then its outcome. Stops at the first hard "no"."""

from collections.abc import Callable
from typing import Any

from webapp.catalog.inspection import config, external_data, files, graph, samples, session, smoke
from webapp.catalog.inspection.comparisons import config_fit, contract
from webapp.catalog.inspection.layout import layout
from webapp.catalog.inspection.names import CHECK_NAMES, NOT_REACHED, TITLES
from webapp.catalog.inspection.subject import CheckFailed, Outcome, Subject

Report = Callable[[dict[str, Any]], None]

_STEPS: dict[str, Callable[[Subject], Outcome]] = {
    "size_and_quota": files.size_and_quota,
    "digest": files.digest,
    "archive": files.archive,
    "no_pickle": files.no_pickle,
    "layout": layout,
    "config": config.config,
    "onnx_parse": graph.onnx_parse,
    "external_data": external_data.external_data,
    "opset": graph.opset,
    "operators": graph.operators,
    "onnx_checker": graph.onnx_checker,
    "load": session.load,
    "signature": session.signature,
    "config_fit": config_fit,
    "contract": contract,
    "smoke": smoke.smoke,
    "samples": samples.samples,
}


def inspect(subject: Subject, report: Report) -> bool:
    """True when no check failed."""
    stopped_by = ""
    for name in CHECK_NAMES:
        if stopped_by:
            report(_outcome(name, Outcome("skipped", f"{NOT_REACHED}: {stopped_by} failed.")))
            continue
        report({"started": name})
        outcome = _run(_STEPS[name], subject)
        report(_outcome(name, outcome))
        if outcome.status == "failed":
            stopped_by = TITLES[name]
    return not stopped_by


def _run(step: Callable[[Subject], Outcome], subject: Subject) -> Outcome:
    try:
        return step(subject)
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
