"""Traffic tables: replaced whole, numbered, and carried to the runtimes within a second.

The push happens right after the commit, in the process that made it. What it could not reach is
tried again by a wake-up and by every probe, so a table is never forgotten.
"""

import secrets
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.accounts.models import User
from webapp.audit.services import audit_record
from webapp.catalog.models import InferenceModel
from webapp.core.errors import Conflict, InvalidInput
from webapp.serving.choices import ArmRole
from webapp.serving.live import tell_model
from webapp.serving.models import TrafficTable
from webapp.serving.selectors import versions_available
from webapp.serving.services.traffic_push import traffic_push_now

_BUCKETS = 10_000


def traffic_set(
    *,
    model: InferenceModel,
    arms: Sequence[dict[str, Any]],
    salt: str | None = None,
    actor: User | None,
    reason: str,
    expected_generation: int | None = None,
) -> TrafficTable:
    """The next generation of the model's table; runtimes have it a moment after the commit.

    `arms`: [{"version", "role", "weight"}], weights adding up to 1. `salt` None keeps the old one.
    With `expected_generation`, a table changed meanwhile is a Conflict.
    """
    checked = _checked(model, arms)
    with transaction.atomic():
        InferenceModel.objects.select_for_update().get(pk=model.pk)  # also when there is no row yet
        table, before = _held(model, len(checked))
        if expected_generation is not None and before is not None:
            _refuse_stale(before, expected_generation)
        _write(table, arms=checked, salt=table.salt if salt is None else salt)
        _finish(table, before, actor, reason)
    return table


def traffic_clear(*, model: InferenceModel, actor: User | None, reason: str) -> None:
    """Takes the table away: for a model that goes out of service."""
    with transaction.atomic():
        table = TrafficTable.objects.select_for_update().filter(model=model).first()
        if table is None or not table.arms:
            return
        before = _shown(table)
        _write(table, arms=[], salt=table.salt)
        _finish(table, before, actor, reason)


def _held(model: InferenceModel, arm_count: int) -> tuple[TrafficTable, dict[str, Any] | None]:
    """The row, locked, and what it says; a new row counts as generation 0 until it is written."""
    table = TrafficTable.objects.select_for_update().filter(model=model).first()
    if table is not None:
        return table, _shown(table)
    # A table that starts with two arms leaves room below it for the interim one of a first load.
    start = 0 if arm_count == 1 else 1
    fresh = TrafficTable.objects.create(
        model=model, generation=start, salt=secrets.token_hex(16), arms=[]
    )
    return fresh, None


def _refuse_stale(before: dict[str, Any], expected: int) -> None:
    if before["generation"] != expected:
        raise Conflict(
            f"The traffic table is at generation {before['generation']}, not {expected}.",
            reason="TRAFFIC_CHANGED",
            help_text="Look at the table as it is now and decide again.",
        )


def _write(table: TrafficTable, *, arms: list[dict[str, Any]], salt: str) -> None:
    TrafficTable.objects.filter(pk=table.pk).update(
        generation=F("generation") + 1,
        arms=arms,
        salt=salt,
        updated_at=timezone.now(),
    )
    table.refresh_from_db()


def _finish(
    table: TrafficTable, before: dict[str, Any] | None, actor: User | None, reason: str
) -> None:
    audit_record(
        actor=actor,
        action="traffic.set",
        target=f"models/{table.model.name}/traffic",
        before=before,
        after=_shown(table),
        note=reason,
    )
    # Before the watchers are told: with Redis away, telling takes seconds.
    transaction.on_commit(lambda: traffic_push_now(model=table.model))
    tell_model(table.model)


def _shown(table: TrafficTable) -> dict[str, Any]:
    return {
        "generation": table.generation,
        "arms": table.arms,
        "salt": table.salt,
        "unit_header": table.unit_header,
    }


def _checked(model: InferenceModel, arms: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    checked = [_checked_arm(index, arm) for index, arm in enumerate(arms)]
    versions = [arm["version"] for arm in checked]
    if len(set(versions)) != len(versions):
        raise _invalid("/arms", "A version can be only one arm of a table.")
    if sum(arm["role"] == ArmRole.STABLE for arm in checked) != 1:
        raise _invalid("/arms", "Exactly one arm must be the stable one.")
    if sum(round(arm["weight"] * _BUCKETS) for arm in checked) != _BUCKETS:
        raise _invalid("/arms", "The weights must add up to 1.")
    available = versions_available(model=model)
    for arm in checked:
        if arm["weight"] > 0 and arm["version"] not in available:
            raise Conflict(
                f"Version {arm['version']} of {model.name} is not loaded on any runtime.",
                reason="VERSION_NOT_LOADED",
                help_text=f"Deploy it first. Loaded now: {available or 'none'}.",
            )
    return checked


def _checked_arm(index: int, arm: dict[str, Any]) -> dict[str, Any]:
    weight, version, role = arm.get("weight"), arm.get("version"), arm.get("role")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise _invalid(f"/arms/{index}/weight", "A number from 0 to 1 is expected.")
    if abs(weight * _BUCKETS - round(weight * _BUCKETS)) > 1e-6:
        raise _invalid(f"/arms/{index}/weight", "Shares are no finer than 0.0001.")
    if role not in ArmRole.values:
        raise _invalid(f"/arms/{index}/role", "'stable' or 'canary' is expected.")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise _invalid(f"/arms/{index}/version", "A version number is expected.")
    return {
        "version": version,
        "variant": arm.get("variant"),
        "role": str(role),
        "weight": round(weight * _BUCKETS) / _BUCKETS,
    }


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(
        detail,
        reason="INVALID_TRAFFIC_TABLE",
        errors=[{"pointer": pointer, "detail": detail, "code": "invalid"}],
    )
