"""What apps above want to know of serving, or have a say in. They register when Django starts.

Serving must not import telemetry or rollouts; here they say what they need.
"""

from collections.abc import Callable
from typing import Protocol

from webapp.catalog.models import ModelVersion


class EventListener(Protocol):
    """Marks in charts; `webapp.telemetry.services.mark_event` fits."""

    def __call__(
        self, *, kind: str, text: str, model_name: str = "", runtime_name: str = ""
    ) -> object: ...


Guard = Callable[[ModelVersion], str]

_listeners: list[EventListener] = []
_guards: list[Guard] = []


def on_event(listener: EventListener) -> None:
    if listener not in _listeners:
        _listeners.append(listener)


def guard_removal(guard: Guard) -> None:
    """`guard(version)` answers "" or a sentence why the version must stay loaded."""
    if guard not in _guards:
        _guards.append(guard)


def tell(*, kind: str, text: str, model_name: str = "", runtime_name: str = "") -> None:
    for listener in _listeners:
        listener(kind=kind, text=text, model_name=model_name, runtime_name=runtime_name)


def objection(version: ModelVersion) -> str:
    return next((reason for guard in _guards if (reason := guard(version))), "")
