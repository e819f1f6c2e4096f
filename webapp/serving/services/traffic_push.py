"""Carries traffic tables to the runtimes: repeatable, safe to race, never backwards."""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.utils import timezone

from webapp.audit.services import audit_record
from webapp.catalog.models import InferenceModel
from webapp.jobs.queue import send
from webapp.runtime_client import types as wire
from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.errors import RuntimeProblem, RuntimeRefused
from webapp.serving.choices import RuntimeHealth
from webapp.serving.live import tell_model
from webapp.serving.models import Runtime, TrafficApplied, TrafficTable
from webapp.serving.selectors import (
    client_for,
    runtimes_serving,
    traffic_table,
    wire_table,
)

logger = logging.getLogger(__name__)

PUSH_SECONDS = 0.8  # the whole of a change is to be in force within one
_TRIES = 3
_PAUSES_SECONDS = (0.0, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class PushOutcome:
    runtime: Runtime
    generation: int
    error: str = ""  # "": applied
    newer: int = 0  # the generation the runtime has, when it is beyond ours


def traffic_push_now(*, model: InferenceModel) -> None:
    """After the commit. Never raises: the change is made, and probes carry it on."""
    try:
        outcomes = traffic_push(model=model)
    except Exception:
        logger.exception("traffic table of %s not pushed", model.name)
        outcomes = None
    if outcomes is None or any(outcome.error for outcome in outcomes):
        send(name="push_traffic", args=[model.pk], queue="control", expires=30)


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
