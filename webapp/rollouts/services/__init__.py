"""Writes of rollouts, by noun. The only writers of a rollout's state."""

from webapp.rollouts.services.actions import (
    rollout_abort,
    rollout_advance,
    rollout_pause,
    rollout_promote,
    rollout_resume,
)
from webapp.rollouts.services.start import Intent, StartOptions, rollout_intent, rollout_start
from webapp.rollouts.services.tick import rollout_tick, rollouts_tick

__all__ = [
    "Intent",
    "StartOptions",
    "rollout_abort",
    "rollout_advance",
    "rollout_intent",
    "rollout_pause",
    "rollout_promote",
    "rollout_resume",
    "rollout_start",
    "rollout_tick",
    "rollouts_tick",
]
