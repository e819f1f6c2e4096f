"""New measurements of both arms, each taken in once: from serving samples to moments."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from webapp.rollouts.measurements import Arms, Moment, Tally
from webapp.rollouts.models import Rollout
from webapp.telemetry.models import ServingSample
from webapp.telemetry.selectors import arm_samples, requests_by_number

# An interval that ended this soon after a switch may hold requests drawn with the share before it.
SETTLING = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Reading:
    moments: tuple[Moment, ...]
    cursor: int
    measured_at: datetime
    in_flight: int


def reading_of(*, rollout: Rollout) -> Reading | None:
    """What the router sent to the two versions since the cursor; None when nothing is new."""
    samples = arm_samples(model=rollout.model.name, after_id=rollout.sample_cursor)
    if not samples:
        return None
    versions = {rollout.stable.number, rollout.canary.number}
    moments = {row.at for row in samples}
    named = requests_by_number(model=rollout.model.name, versions=versions, moments=moments)
    intervals: dict[tuple[datetime, int], list[ServingSample]] = defaultdict(list)
    for sample in samples:
        if sample.version in versions:
            intervals[sample.at, sample.runtime_id].append(sample)
    newest = max(samples, key=lambda sample: (sample.at, sample.id))
    return Reading(
        moments=tuple(
            _moment(rollout, at, rows, named.get((at, runtime_id), 0))
            for (at, runtime_id), rows in sorted(intervals.items())
        ),
        cursor=max(sample.id for sample in samples),
        measured_at=newest.at,
        in_flight=sum(sample.inflight or 0 for sample in samples if sample.at == newest.at),
    )


def _moment(rollout: Rollout, at: datetime, rows: list[ServingSample], named: int) -> Moment:
    settled = rollout.applied_at is not None and at >= rollout.applied_at + SETTLING
    generation = max(row.generation for row in rows)
    return Moment(
        arms=Arms(
            canary=_tally(row for row in rows if row.version == rollout.canary.number),
            stable=_tally(row for row in rows if row.version == rollout.stable.number),
        ),
        at=at.timestamp(),
        weight=_weight(rollout, generation, settled=settled),
        settled=settled and generation == rollout.generation,
        even=named <= sum(row.requests for row in rows),
    )


def _weight(rollout: Rollout, generation: int, *, settled: bool) -> float | None:
    """Around a switch the larger of the two shares: taken too high, a share only slows the test."""
    weights = {int(number): float(weight) for number, weight in rollout.weights.items()}
    now = weights.get(generation)
    if now is None or settled:
        return now
    before = max((number for number in weights if number < generation), default=None)
    return now if before is None else max(now, weights[before])


def _tally(rows: Iterable[ServingSample]) -> Tally:
    total = Tally()
    for row in rows:
        total += Tally(
            requests=row.requests,
            errors=row.failures + row.timeouts,
            rejections=row.rejections,
            client_faults=row.client_faults,
            inferences=row.inferences,
            executions=row.executions,
            queue_ns=row.queue_ns,
            compute_ns=row.compute_ns,
            latency={int(bucket): count for bucket, count in row.latency.items()},
        )
    return total
