"""Traffic tables: replaced whole, numbered, and carried to the runtimes within a second.

The push happens right after the commit, in the process that made it. What it could not reach is
tried again by a wake-up and by every probe, so a table is never forgotten.
"""

import logging
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.accounts.models import User
from webapp.audit.services import audit_record
from webapp.catalog.models import InferenceModel
from webapp.core.errors import Conflict, InvalidInput
from webapp.jobs.queue import send
from webapp.runtime_client import types as wire
from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.errors import RuntimeProblem, RuntimeRefused
from webapp.serving.choices import ArmRole, RuntimeHealth
from webapp.serving.live import tell_model
from webapp.serving.models import Runtime, TrafficApplied, TrafficTable
from webapp.serving.selectors import (
    client_for,
    runtimes_serving,
    traffic_table,
    versions_available,
    wire_table,
)

logger = logging.getLogger(__name__)

PUSH_SECONDS = 0.8
_BUCKETS = 10_000
_TRIES = 3
_PAUSES_SECONDS = (0.0, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class PushOutcome:
    runtime: Runtime
    generation: int
    error: str = ""  # "": applied
    newer: int = 0  # the generation the runtime has, when it is beyond ours


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
    transaction.on_commit(lambda: _push_now(table.model))
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


# -- to the runtimes ----------------------------------------------------------------------------
def _push_now(model: InferenceModel) -> None:
    """After the commit. Never raises: the change is made, and probes carry it on."""
    try:
        outcomes = traffic_push(model=model)
    except Exception:
        logger.exception("traffic table of %s not pushed", model.name)
        outcomes = None
    if outcomes is None or any(outcome.error for outcome in outcomes):
        send(name="push_traffic", args=[model.pk], expires=30)


def traffic_push(
    *, model: InferenceModel, runtimes: Sequence[Runtime] | None = None
) -> list[PushOutcome]:
    """Brings the newest table to every runtime that serves the model. Repeatable and safe to race:
    a runtime refuses what is older than what it has."""
    targets = list(runtimes) if runtimes is not None else _targets(model)
    outcomes: list[PushOutcome] = []
    for _ in range(_TRIES):
        table = traffic_table(model=model)
        if table is None or not targets:
            return []
        outcomes = _put_all(table, model, targets)
        for outcome in outcomes:
            _record(outcome, model, table)
        newer = max((outcome.newer for outcome in outcomes), default=0)
        if not newer:
            break
        _raise_generation(table, newer)
    tell_model(model)
    return outcomes


def _targets(model: InferenceModel) -> list[Runtime]:
    having_a_table = TrafficApplied.objects.filter(model=model, generation__gt=0)
    with_table = Runtime.objects.filter(pk__in=having_a_table.values("runtime_id"))
    found = {one.pk: one for one in (*runtimes_serving(model=model), *with_table)}
    return list(found.values())


def _put_all(
    table: TrafficTable, model: InferenceModel, runtimes: Sequence[Runtime]
) -> list[PushOutcome]:
    """At once, so that one that does not answer delays no other. No database in the threads."""
    wired = wire_table(table=table, model_name=model.name)
    work = [(client_for(runtime=runtime), runtime, wired) for runtime in runtimes]
    if len(work) == 1:
        return [_put(*work[0])]
    with ThreadPoolExecutor(max_workers=min(16, len(work))) as pool:
        return list(pool.map(lambda one: _put(*one), work))


def _put(client: RuntimeConnection, runtime: Runtime, table: wire.TrafficTable) -> PushOutcome:
    try:
        if table.arms:
            client.traffic_put(table, timeout=PUSH_SECONDS)
        else:
            client.traffic_delete(table.model, generation=table.generation, timeout=PUSH_SECONDS)
    except RuntimeRefused as refusal:
        newer = _generation_of(client, table.model) if refusal.status == 409 else 0
        return PushOutcome(
            runtime, table.generation, refusal.text, max(newer, table.generation) if newer else 0
        )
    except RuntimeProblem as problem:
        return PushOutcome(runtime, table.generation, problem.text)
    return PushOutcome(runtime, table.generation)


def _generation_of(client: RuntimeConnection, name: str) -> int:
    try:
        table = client.traffic_get(name, timeout=PUSH_SECONDS)
    except RuntimeProblem:
        return 0
    return table.generation if table is not None else 0


def _record(outcome: PushOutcome, model: InferenceModel, table: TrafficTable) -> None:
    row, _ = TrafficApplied.objects.get_or_create(runtime=outcome.runtime, model=model)
    rows = TrafficApplied.objects.filter(pk=row.pk, generation__lte=outcome.generation)
    if outcome.error:
        rows.update(error=outcome.error[:500])
        return
    rows.update(
        generation=outcome.generation if table.arms else 0,
        arms=table.arms,
        applied_at=timezone.now(),
        error="",
    )


def _raise_generation(table: TrafficTable, newer: int) -> None:
    """A runtime knows a later table than we do: our database was restored, or is another one.

    What is configured here wins, so it gets a number beyond the runtime's. When somebody changed
    the table meanwhile, the next try takes that one instead.
    """
    raised = TrafficTable.objects.filter(
        pk=table.pk, generation=table.generation, generation__lte=newer
    ).update(generation=newer + 1, updated_at=timezone.now())
    if raised:
        audit_record(
            actor=None,
            action="traffic.set",
            target=f"models/{table.model.name}/traffic",
            before={"generation": table.generation},
            after={"generation": newer + 1},
            note="A runtime had a later generation; the same table was numbered anew.",
        )


def traffic_unreached(*, model: InferenceModel) -> list[Runtime]:
    """Runtimes that answer but do not have the newest table yet."""
    table = traffic_table(model=model)
    if table is None:
        return []
    wanted = table.generation if table.arms else 0
    applied = {row.runtime_id: row.generation for row in TrafficApplied.objects.filter(model=model)}
    return [
        runtime
        for runtime in _targets(model)
        if applied.get(runtime.pk, 0) != wanted and runtime.health != RuntimeHealth.UNREACHABLE
    ]


def traffic_catch_up(*, model_id: int) -> None:
    """A wake-up's work: tries a few times to reach runtimes that answer but are behind."""
    model = InferenceModel.objects.filter(pk=model_id).first()
    if model is None:
        return
    for pause in _PAUSES_SECONDS:
        time.sleep(pause)
        behind = traffic_unreached(model=model)
        if not behind:
            return
        traffic_push(model=model, runtimes=behind)
