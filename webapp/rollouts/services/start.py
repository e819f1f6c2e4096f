"""Begins rollouts: what must hold, what will happen, and the row that starts it."""

import secrets
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction
from django.utils import timezone

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_cause
from webapp.catalog.choices import UNDECIDED_STATES, VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.core.errors import Conflict
from webapp.rollouts.choices import RolloutState
from webapp.rollouts.decision import CanaryHealth
from webapp.rollouts.models import Rollout
from webapp.rollouts.plan import Plan
from webapp.rollouts.selectors import (
    canary_health,
    contract_breaks,
    rollout_active,
    serving_runtimes,
    stable_version,
)
from webapp.rollouts.services.actions import supersede
from webapp.rollouts.services.moves import Move, rollout_move
from webapp.serving.models import Deployment, Runtime
from webapp.serving.selectors import splits_traffic
from webapp.serving.services import deployment_request


@dataclass(frozen=True, slots=True)
class StartOptions:
    allow_contract_change: bool = False
    supersede: bool = False  # of a rollout that is still active


@dataclass(frozen=True, slots=True)
class Intent:
    """What a start would do. Made without changing anything, so it can be shown first."""

    stable: ModelVersion
    canary: ModelVersion
    plan: Plan
    runtimes: tuple[Runtime, ...]
    load_on: tuple[Runtime, ...]  # where the canary is not meant to run yet
    contract_changes: tuple[str, ...]
    replaces: Rollout | None = field(default=None)


def rollout_intent(
    *, model: InferenceModel, canary: ModelVersion, plan: Plan, options: StartOptions
) -> Intent:
    """Raises Conflict with what to do about it."""
    stable = _stable(model, canary)
    _require_ready(canary)
    changes = contract_breaks(stable=stable, canary=canary)
    if changes and not options.allow_contract_change:
        raise Conflict(
            f"Clients of version {stable.number} would notice version {canary.number}: "
            f"{' '.join(changes)}",
            reason="CONTRACT_CHANGED",
            help_text="Send allow_contract_change=true if every client can take it, "
            "or register the version as another model.",
            changes=changes,
        )
    runtimes = _runtimes(stable)
    wanted = Deployment.objects.filter(version=canary, wanted=True)
    loaded = set(wanted.values_list("runtime_id", flat=True))
    return Intent(
        stable=stable,
        canary=canary,
        plan=plan,
        runtimes=tuple(runtimes),
        load_on=tuple(runtime for runtime in runtimes if runtime.pk not in loaded),
        contract_changes=tuple(changes),
        replaces=_active(model, options),
    )


def rollout_start(
    *,
    model: InferenceModel,
    canary: ModelVersion,
    plan: Plan,
    actor: User,
    options: StartOptions = StartOptions(),
) -> Rollout:
    """Loads the canary where it is missing and leaves the rest to the tick."""
    require(actor=actor, action=Action.ROLLOUT)
    intent = rollout_intent(model=model, canary=canary, plan=plan, options=options)
    try:
        with transaction.atomic():
            if intent.replaces is not None:
                supersede(rollout=intent.replaces, actor=actor, by=str(canary.number))
            rollout = _create(intent, actor)
            with audit_cause(cause=rollout.api_path):
                for runtime in intent.load_on:
                    deployment_request(version=canary, runtime=runtime, actor=actor)
            return rollout_move(rollout=rollout, move=_initialize(intent, actor))
    except IntegrityError:
        raise _already_active(model.name) from None


def _create(intent: Intent, actor: User) -> Rollout:
    now = timezone.now()
    return Rollout.objects.create(
        model=intent.canary.model,
        stable=intent.stable,
        canary=intent.canary,
        **intent.plan.to_json(),
        salt=secrets.token_hex(16),
        started_by=actor,
        state_since=now,
        step_since=now,
    )


def _initialize(intent: Intent, actor: User) -> Move:
    if intent.load_on:
        places = ", ".join(runtime.name for runtime in intent.load_on)
        reason = f"Loading version {intent.canary.number} on {places}."
    else:
        health, why = canary_health(canary=intent.canary, runtimes=intent.runtimes)
        reason = "" if health is CanaryHealth.AVAILABLE else f"Waiting: {why}."
    return Move(
        to=RolloutState.INITIALIZING,
        verb="start",
        actor=actor,
        reason=reason or f"Started by {actor.get_username()}.",
    )


# -- what must hold -------------------------------------------------------------------------


def _stable(model: InferenceModel, canary: ModelVersion) -> ModelVersion:
    stable = stable_version(model=model)
    if stable is None:
        raise Conflict(
            f"Model {model.name} has no version in service to compare with.",
            reason="NO_STABLE",
            help_text=f"Deploy version {canary.number}: the first version gets all traffic.",
        )
    if stable.pk == canary.pk:
        raise Conflict(
            f"Version {canary.number} is the stable version already; it has all the traffic.",
            reason="SAME_VERSION",
            help_text="Choose another version.",
        )
    return stable


def _require_ready(canary: ModelVersion) -> None:
    if canary.state != VersionState.READY:
        raise Conflict(
            f"Version {canary.number} is {canary.state}; only a READY version can take traffic.",
            reason="VERSION_NOT_READY",
            retryable=canary.state in UNDECIDED_STATES,
            help_text="Its page shows the checks and what to do about those that failed.",
        )


def _runtimes(stable: ModelVersion) -> list[Runtime]:
    runtimes = serving_runtimes(version=stable)
    if not runtimes:
        raise Conflict(
            f"Version {stable.number}, the stable one, is not deployed on any runtime.",
            reason="NO_STABLE",
            help_text=f"Deploy version {stable.number} first.",
        )
    health, why = canary_health(canary=stable, runtimes=runtimes)
    if health is not CanaryHealth.AVAILABLE:
        raise Conflict(
            f"Version {stable.number}, the stable one, is not available: {why}.",
            reason="STABLE_UNAVAILABLE",
            help_text="Repair it first; there is nothing sound to compare with.",
        )
    lacking = [runtime.name for runtime in runtimes if not splits_traffic(runtime=runtime)]
    if lacking:
        raise Conflict(
            f"{', '.join(lacking)} cannot split traffic: it lacks the protocol extension.",
            reason="RUNTIME_LACKS_TRAFFIC",
            help_text="Serve the model on a Switchyard runtime, or put one in front as a gateway.",
        )
    return runtimes


def _active(model: InferenceModel, options: StartOptions) -> Rollout | None:
    active = rollout_active(model=model)
    if active is None:
        return None
    if not options.supersede:
        raise _already_active(model.name, active)
    if active.is_promoted or active.state == RolloutState.ROLLING_BACK:
        raise Conflict(
            f"Rollout {active.id} is {active.state}; it ends by itself in a moment.",
            reason="ROLLOUT_ACTIVE",
            help_text="Wait for its end, or abort it.",
            rollout=active.id,
        )
    return active


def _already_active(model_name: str, active: Rollout | None = None) -> Conflict:
    which = (
        f": {active.id} (version {active.canary.number}, {active.state})" if active else " already"
    )
    return Conflict(
        f"Model {model_name} has a rollout under way{which}.",
        reason="ROLLOUT_ACTIVE",
        help_text="Abort it, wait for its end, or send supersede=true: stable stays the base.",
        rollout=active.id if active else None,
    )
