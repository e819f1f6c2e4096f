"""What apps above have a say in. They register when Django starts; the catalogue imports none of them."""

from collections.abc import Callable
from dataclasses import dataclass

from webapp.catalog.models import ModelVersion


@dataclass(frozen=True, slots=True)
class Objection:
    reason: str
    detail: str
    fix: str


Guard = Callable[[str, ModelVersion], Objection | None]

_guards: list[Guard] = []


def guard_stage(guard: Guard) -> None:
    """`guard(stage, version)` answers None, or why the stage must not point at the version now."""
    if guard not in _guards:
        _guards.append(guard)


def objection(stage: str, version: ModelVersion) -> Objection | None:
    return next((found for guard in _guards if (found := guard(stage, version))), None)
