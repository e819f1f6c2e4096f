"""Writes of telemetry that others ask for: marks that explain a bend in a chart."""

from webapp.telemetry.deltas import RuntimeDelta
from webapp.telemetry.models import EventMark


def mark_event(*, kind: str, text: str, model_name: str = "", runtime_name: str = "") -> EventMark:
    """A vertical rule in the charts of the model and the runtime; without either, in all charts.

    Part of the caller's transaction. The sampler tells it to open pages within a second.
    """
    return EventMark.objects.create(
        kind=kind, text=text[:300], model_name=model_name, runtime_name=runtime_name
    )


def serving_event_mark(
    *, kind: str, text: str, model_name: str = "", runtime_name: str = ""
) -> None:
    """`mark_event` but for loads and unloads, which the sampler sees at the runtime itself."""
    if kind not in ("load", "unload"):
        mark_event(kind=kind, text=text, model_name=model_name, runtime_name=runtime_name)


def marks_of_changes(*, delta: RuntimeDelta, runtime_name: str) -> list[EventMark]:
    """What a runtime shows to have happened between two looks at it; not saved yet."""
    if delta.restarted:
        text = f"runtime {runtime_name} restarted"
        return [EventMark(kind="restart", text=text, runtime_name=runtime_name)]
    changes = (("load", "loaded on", delta.loaded), ("unload", "unloaded from", delta.unloaded))
    return [
        EventMark(
            kind=kind,
            text=f"{model} v{version} {verb} {runtime_name}",
            model_name=model,
            runtime_name=runtime_name,
        )
        for kind, verb, versions in changes
        for model, version in versions
    ]
