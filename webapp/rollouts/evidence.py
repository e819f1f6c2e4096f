"""What a rollout has learned so far: folded in moment by moment, kept as JSON in its row. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from inference_runtime.spec.latency import BOUNDS_NS, bucket_of
from webapp.rollouts.analysis import (
    NO_EVIDENCE,
    Assignments,
    Counts,
    above,
    log_evidence,
    log_l_with,
)
from webapp.rollouts.choices import Guardrail
from webapp.rollouts.measurements import Arms, Moment, Window, windows_with
from webapp.rollouts.plan import Guardrails

SLO_MIN_REQUESTS = 300  # stable answers before its p99 may set the latency limit
SLO_OVER_P99 = 1.5
# Of the canary, in each step. First runs are slow (arenas, kernels chosen at first use, the place of
# execution found for batch sizes not seen before), and a larger share brings new batch sizes.
WARM_UP_REQUESTS = 50
SHARE_MIN_REQUESTS = 200
MOMENT_MIN_REQUESTS = 30


@dataclass(frozen=True, slots=True)
class Evidence:
    log_l: Mapping[Guardrail, tuple[float, ...]] = field(default_factory=dict)
    log_peak: Mapping[Guardrail, float] = field(default_factory=dict)
    total: Arms = field(default_factory=Arms)  # since the canary first had traffic
    step: Arms = field(default_factory=Arms)  # since this step's share is applied
    windows: tuple[Window, ...] = ()
    assignments: Assignments = field(default_factory=Assignments)
    # Latency evidence only. Until there is a limit, what it is set from; then, what it judged.
    timed: Arms = field(default_factory=Arms)
    slo_bucket: int | None = None

    @property
    def slo_ms(self) -> float | None:
        return None if self.slo_bucket is None else BOUNDS_NS[self.slo_bucket] / 1e6

    def counts(self, latency_allowance_ns: int = 0) -> Counts:
        return Counts(
            log_l=self.log_l,
            log_peak=self.log_peak,
            total=self.total,
            step=self.step,
            windows=self.windows,
            timed=self.timed,
            slo_bucket=self.slo_bucket,
            latency_allowance_ns=latency_allowance_ns,
        )

    def for_next_step(self) -> "Evidence":
        """Sample counts begin anew with each step; the sequential tests go on."""
        return replace(self, step=Arms(), assignments=Assignments(), windows=())

    def recounted(self) -> "Evidence":
        """Only the split and the windows begin anew."""
        return replace(self, assignments=Assignments(), windows=())

    def to_json(self) -> dict[str, Any]:
        return {
            "log_l": {guardrail.value: list(values) for guardrail, values in self.log_l.items()},
            "log_peak": {guardrail.value: peak for guardrail, peak in self.log_peak.items()},
            "total": self.total.to_json(),
            "step": self.step.to_json(),
            "windows": [window.to_json() for window in self.windows],
            "timed": self.timed.to_json(),
            "assignments": [self.assignments.canary, self.assignments.requests],
            "slo_bucket": self.slo_bucket,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Evidence":
        return cls(
            log_l={Guardrail(k): tuple(v) for k, v in row.get("log_l", {}).items()},
            log_peak={Guardrail(k): v for k, v in row.get("log_peak", {}).items()},
            total=Arms.from_json(row.get("total", {})),
            step=Arms.from_json(row.get("step", {})),
            windows=tuple(Window.from_json(w) for w in row.get("windows", [])),
            timed=Arms.from_json(row.get("timed", {})),
            assignments=Assignments(*row.get("assignments", (0, 0))),
            slo_bucket=row.get("slo_bucket"),
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """How moments are to be read: the guardrails, and how the runtime draws."""

    guardrails: Guardrails
    per_request: bool = True  # False: a header keeps a client on one arm
    latency_allowance_ns: int = 0


def fold(evidence: Evidence, moments: Iterable[Moment], rules: Rules) -> Evidence:
    for moment in moments:
        evidence = _with_moment(evidence, moment, rules)
    return evidence


def _with_moment(evidence: Evidence, moment: Moment, rules: Rules) -> Evidence:
    evidence = _with_limit(evidence, rules)
    log_l, log_peak = dict(evidence.log_l), dict(evidence.log_peak)
    share = _share(evidence, moment, rules)
    timed = moment.even and evidence.step.canary.requests >= WARM_UP_REQUESTS
    for guardrail in rules.guardrails.enabled():
        if guardrail is Guardrail.LATENCY and not timed:
            continue
        before = log_l.get(guardrail, NO_EVIDENCE)
        log_l[guardrail] = log_l_with(
            before,
            share,
            moment.arms.canary.bad(guardrail, evidence.slo_bucket),
            moment.arms.stable.bad(guardrail, evidence.slo_bucket),
        )
        reached = log_evidence(log_l[guardrail])
        log_peak[guardrail] = max(log_peak.get(guardrail, 0.0), reached)
    return replace(
        evidence,
        log_l=log_l,
        log_peak=log_peak,
        total=evidence.total + moment.arms,
        step=evidence.step + moment.arms,
        # Both arms of a moment count or neither does, so the shares of what counts stay true.
        windows=windows_with(evidence.windows, moment) if timed else evidence.windows,
        timed=evidence.timed + moment.arms if timed else evidence.timed,
        assignments=_assignments(evidence.assignments, moment),
    )


def _with_limit(evidence: Evidence, rules: Rules) -> Evidence:
    """The limit is set from what came before, so no answer chooses its own judge."""
    if evidence.slo_bucket is not None:
        return evidence
    slo_bucket = _slo_bucket(evidence, rules)
    if slo_bucket is None:
        return evidence
    return replace(evidence, slo_bucket=slo_bucket, timed=Arms())


def _share(evidence: Evidence, moment: Moment, rules: Rules) -> float:
    """The canary's share of this moment's requests, or 0 where nothing can be concluded.

    Drawn per request, it is the share the runtime draws with, which is exact even in a second with
    one request. What was seen in the step only raises it: too high a share is safe, too low is not.
    With sticky clients the share is what was seen.
    """
    if moment.weight is None or not 0 < moment.weight < 1:
        return 0.0
    step = evidence.step + moment.arms
    seen = step.canary_share() if step.requests >= SHARE_MIN_REQUESTS else None
    if rules.per_request:
        return max(moment.weight, seen or 0.0)
    own = moment.arms.canary_share() if moment.arms.requests >= MOMENT_MIN_REQUESTS else None
    return max(own or 0.0, step.canary_share() or 0.0)


def _slo_bucket(evidence: Evidence, rules: Rules) -> int | None:
    if rules.guardrails.slo_ms is not None:
        return bucket_of(round(rules.guardrails.slo_ms * 1e6))
    stable = evidence.timed.stable
    p99_ms = stable.percentile_ms(0.99)
    if p99_ms is None or stable.successes < SLO_MIN_REQUESTS:
        return None
    limit_ms = above(p99_ms, ratio=SLO_OVER_P99)
    return bucket_of(round(limit_ms * 1e6) + rules.latency_allowance_ns)


def _assignments(before: Assignments, moment: Moment) -> Assignments:
    if not moment.settled:
        return before
    return Assignments(
        before.canary + moment.arms.canary.requests, before.requests + moment.arms.requests
    )
