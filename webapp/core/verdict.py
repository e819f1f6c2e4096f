"""What the strip on top of every page says. Apps above register the facts; this module only gathers."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from django.contrib.auth.models import AbstractUser

logger = logging.getLogger(__name__)

Tone = Literal["good", "bad", "canary", "idle"]
_GRAVITY: dict[Tone, int] = {"bad": 3, "canary": 2, "idle": 1, "good": 0}


@dataclass(frozen=True)
class StripItem:
    """One thing worth knowing everywhere, such as an active rollout."""

    text: str
    url: str = ""
    tone: Tone = "idle"


@dataclass(frozen=True)
class Verdict:
    """One provider's view. The gravest word wins; items of all providers are shown."""

    word: str  # "All well", "Degraded", …
    tone: Tone
    reason: str = ""
    items: tuple[StripItem, ...] = ()
    data_at: datetime | None = None  # how fresh the data behind the word is


@dataclass(frozen=True)
class Strip:
    word: str
    tone: Tone
    reason: str
    items: tuple[StripItem, ...] = field(default=())
    data_at: datetime | None = None


_providers: list[Callable[[AbstractUser], Verdict | None]] = []


def register(provider: Callable[[AbstractUser], Verdict | None]) -> None:
    if provider not in _providers:
        _providers.append(provider)


def strip_of(user: AbstractUser) -> Strip:
    found: list[Verdict] = []
    for provider in _providers:
        try:
            verdict = provider(user)
        except Exception:  # a strip that cannot be drawn must not take the page with it
            logger.exception("verdict provider failed")
            verdict = Verdict(word="Unknown", tone="idle", reason="the health check itself failed")
        if verdict is not None:
            found.append(verdict)
    if not found:
        return Strip(word="Unknown", tone="idle", reason="nothing has reported yet")
    gravest = max(found, key=lambda verdict: _GRAVITY[verdict.tone])
    moments = [verdict.data_at for verdict in found if verdict.data_at is not None]
    return Strip(
        word=gravest.word,
        tone=gravest.tone,
        reason=gravest.reason,
        items=tuple(item for verdict in found for item in verdict.items),
        data_at=min(moments) if moments else None,
    )
