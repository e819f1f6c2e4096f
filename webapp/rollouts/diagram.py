"""A rollout as a track diagram: its two versions, their shares, and where the next step leads."""

from webapp.catalog.models import ModelVersion
from webapp.core.templatetags.units import rate as rate_text
from webapp.core.track_diagram import Arm, Diagram, Lamp, Role
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.models import Rollout
from webapp.rollouts.state_machine import ACTIVE_STATES
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment

_LADDER_STATES = frozenset({RolloutState.PROGRESSING, RolloutState.PAUSED})


def rollout_diagram(
    *, rollout: Rollout, shares: dict[int, float] | None = None, rate: float | None = None
) -> Diagram:
    """`shares`: version → observed share; empty or None while nothing is known."""
    straight, branch = rollout.stable, rollout.canary
    if rollout.is_promoted:
        straight, branch = rollout.canary, rollout.stable
    lamps = _lamps(straight, branch)
    on_branch = 0.0 if rollout.is_promoted else rollout.weight
    arms = (
        _arm(straight, "stable", 1 - on_branch, shares, lamps),
        _arm(branch, "canary" if on_branch > 0 else "idle", on_branch, shares, lamps),
    )
    return Diagram(
        rollout.model.name,
        arms,
        next_share=_next_share(rollout),
        rate_text=rate_text(rate) if rate is not None and rollout.state in ACTIVE_STATES else "",
    )


def _next_share(rollout: Rollout) -> float | None:
    if rollout.state not in _LADDER_STATES or rollout.step >= rollout.plan.last_step:
        return None
    return rollout.plan.steps[rollout.step + 1].weight


def _arm(
    version: ModelVersion,
    role: Role,
    configured: float,
    shares: dict[int, float] | None,
    lamps: dict[int, tuple[Lamp, str]],
) -> Arm:
    lamp, word = lamps[version.number]
    if role == "idle" and word == "available":
        word = "loaded, standing by"
    observed = shares.get(version.number, 0.0) if shares else None
    return Arm(f"v{version.number}", role, configured, observed, lamp, word)


_LAMPS: dict[str, tuple[Lamp, str]] = {
    DeploymentState.AVAILABLE: ("good", "available"),
    DeploymentState.FAILED: ("bad", "failed"),
    DeploymentState.LOADING: ("busy", "loading"),
    DeploymentState.PENDING: ("busy", "waiting to load"),
    DeploymentState.UNLOADING: ("busy", "unloading"),
    DeploymentState.UNLOADED: ("idle", "not loaded"),
}
_GRAVITY = ("bad", "busy", "idle", "good")


def _lamps(*versions: ModelVersion) -> dict[int, tuple[Lamp, str]]:
    """The worst over the runtimes a version is meant to run on."""
    lamps: dict[int, tuple[Lamp, str]] = {}
    for version in versions:
        states = Deployment.objects.filter(version=version, wanted=True)
        found = [_LAMPS[state] for state in states.values_list("state", flat=True)]
        lamps[version.number] = min(
            found, key=lambda one: _GRAVITY.index(one[0]), default=("idle", "not loaded")
        )
    return lamps
