"""Which models a server loads when it starts, and what came of it."""

import asyncio
import enum
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_runtime.errors import RuntimeFault
from inference_runtime.lifecycle.lifecycle import ModelLifecycle
from inference_runtime.repository.overrides import LoadOverride
from inference_runtime.repository.repository import DUPLICATE, ModelRepository

logger = logging.getLogger(__name__)
EVERYTHING = "*"


class ModelControlMode(enum.Enum):
    NONE = "none"
    POLL = "poll"
    EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True)
class StartUp:
    """`failures`: models the operator asked for; `lost`: models of an earlier life that did not come back."""

    loaded: tuple[str, ...]
    failures: Mapping[str, str]
    lost: Mapping[str, str]


def asked_for(
    mode: ModelControlMode, load_models: Sequence[str], repository: ModelRepository
) -> dict[str, str]:
    """Names to load → what is wrong with a name already ("": nothing)."""
    if mode is not ModelControlMode.EXPLICIT or list(load_models) == [EVERYTHING]:
        return {
            name: f"'{name}': {DUPLICATE}" if duplicate else ""
            for name, duplicate in repository.names().items()
        }
    asked = {identity: "" for name in load_models for identity in repository.identities(name)}
    if EVERYTHING in asked:
        asked[EVERYTHING] = "'*' can not be combined with names of models"
    return asked


async def load_at_start(
    lifecycle: ModelLifecycle,
    asked: Mapping[str, str],
    kept: Mapping[str, LoadOverride | None],
) -> StartUp:
    """Loads what was asked for and what was loaded before, as far as it can be; raises nothing."""
    problems = {name: problem for name, problem in asked.items() if problem}
    names = [name for name in {**asked, **kept} if name not in problems]
    results = await asyncio.gather(*(_try(lifecycle, name, kept.get(name)) for name in names))
    outcome = dict(zip(names, results, strict=True))
    failed = {**problems, **{name: text for name, text in outcome.items() if text}}
    for name, text in failed.items():
        logger.error("model '%s' was not loaded: %s", name, text)
    return StartUp(
        loaded=tuple(name for name, text in outcome.items() if not text),
        failures={name: text for name, text in failed.items() if name in asked},
        lost={name: text for name, text in failed.items() if name not in asked},
    )


async def _try(lifecycle: ModelLifecycle, name: str, kept: LoadOverride | None) -> str:
    try:
        await lifecycle.load(name, kept=kept, remember=False)
    except RuntimeFault as fault:
        return fault.text.strip()
    return ""
