"""Facts + observation → the picture the reconciler decides on. No database, no clock."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from webapp.runtime_client import types as wire
from webapp.serving.choices import DeploymentState
from webapp.serving.config_values import ConfigProblem
from webapp.serving.models import TrafficTable
from webapp.serving.observation import Observation
from webapp.serving.reconciler import ModelPicture, Share, WantedTable
from webapp.serving.selectors import ModelFacts


def picture_of(*, facts: ModelFacts, observation: Observation, now: datetime) -> ModelPicture:
    rows = facts.deployments
    resting = [row for row in rows if row.retry_at is None or row.retry_at > now]
    theirs = observation.tables.get(facts.model.name)
    picture = ModelPicture(
        wanted=frozenset(row.version.number for row in rows if row.wanted),
        observed=observation.states(facts.model.name),
        held_back=frozenset(
            row.version.number
            for row in resting
            if row.wanted and row.state == DeploymentState.FAILED
        ),
        unload_held=any(not row.wanted and row.failed_loads for row in resting),
        table=_wanted(facts.table),
        tabled=theirs is not None,
        table_current=_same(facts.table, theirs),
        splits=observation.splits,
    )
    current, held = _config_state(facts, sorted(picture.loadable), now)
    return replace(picture, config_current=current, reload_held=held)


def _config_state(facts: ModelFacts, versions: Sequence[int], now: datetime) -> tuple[bool, bool]:
    """Whether the runtime has the config we would load the versions with, or refused it lately."""
    row = facts.loaded
    if row is None or not versions:
        return False, False
    try:
        text = facts.config(versions).text
    except ConfigProblem:
        return True, True  # nothing better to load; the editor says what is wrong
    due = row.retry_at is not None and row.retry_at <= now
    return text == row.text, text == row.refused_text and not due


def _wanted(table: TrafficTable | None) -> WantedTable | None:
    if table is None:
        return None
    arms = tuple(Share(arm["version"], arm["role"], arm["weight"]) for arm in table.arms)
    return WantedTable(table.generation, arms)


def _same(ours: TrafficTable | None, theirs: wire.TrafficTable | None) -> bool:
    if ours is None or not ours.arms or theirs is None:
        return theirs is None and (ours is None or not ours.arms)
    return ours.generation == theirs.generation and {
        (arm["version"], arm["role"], round(arm["weight"], 4)) for arm in ours.arms
    } == {(arm.version, arm.role, round(arm.weight, 4)) for arm in theirs.arms}
