"""Is the canary worse than stable? A sequential test that may be looked at after every request. Pure.

An event that should not happen (an error, a rejection, a slow answer) falls on the canary with
probability s, the canary's share, when both versions are equally good. If the canary's rate is rho
times stable's, the chance is rho·s / (rho·s + 1 − s). The likelihood ratio of the two, averaged
over several rho, is a fair bet against "equally good": the chance that it ever reaches 1/alpha is
at most alpha, however often one looks and however the share moves. That is why there is no check
interval here, and no count of failed checks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webapp.rollouts.choices import Guardrail, Verdict
from webapp.rollouts.measurements import Arms, Tally, Window
from webapp.rollouts.plan import Guardrails

RATIOS: tuple[float, ...] = (1.5, 2, 3, 5, 10, 20)
NO_EVIDENCE: tuple[float, ...] = (0.0,) * len(RATIOS)
# Ten to one against "equally good" is not enough to stop, and too much to go on.
CAUTION_LOG_EVIDENCE = math.log(10)
SRM_P_VALUE = 0.001
SRM_MIN_ASSIGNMENTS = 1000
P99_WINDOWS = 3
# A batch handed to a thread may wait so long for a processor, and the arm with fewer requests is
# handed over more often: less is a difference between arms, not between versions.
NOISE_MS = 5.0
P99_MIN_PER_WINDOW = 300


# -- the sequential test --------------------------------------------------------------------


def log_ratios(share: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What one bad canary event and one bad stable event add to log L, for each ratio."""
    stable = tuple(-math.log(rho * share + 1 - share) for rho in RATIOS)
    canary = tuple(math.log(rho) + step_down for rho, step_down in zip(RATIOS, stable, strict=True))
    return canary, stable


def log_l_with(
    log_l: Sequence[float], share: float, canary_bad: int, stable_bad: int
) -> tuple[float, ...]:
    """The running log likelihood ratios after more bad events at this share of the canary.

    A share of 0 or 1 teaches nothing: there is no second arm to compare with. A share that is
    taken too high only makes the test slower to stop, never quicker.
    """
    if not 0 < share < 1 or not (canary_bad or stable_bad):
        return tuple(log_l)
    canary, stable = log_ratios(share)
    return tuple(
        value + canary_bad * up + stable_bad * down
        for value, up, down in zip(log_l, canary, stable, strict=True)
    )


def log_evidence(log_l: Sequence[float]) -> float:
    """log of the mean of the L: how strongly the data speak for "the canary is worse"."""
    top = max(log_l)
    return top + math.log(sum(math.exp(value - top) for value in log_l) / len(log_l))


def log_limit(alpha: float) -> float:
    return -math.log(alpha)


# -- do the requests arrive in the configured shares? ---------------------------------------


@dataclass(frozen=True, slots=True)
class Assignments:
    """Requests of one step, counted while the runtime is known to use the step's share."""

    canary: int = 0
    requests: int = 0


def sample_ratio_p(assignments: Assignments, weight: float, *, in_flight: int = 0) -> float:
    """How likely a split at least this far from `weight` is; 1 where it cannot be told.

    Requests still in flight are given to whichever arm makes the split look right.
    """
    n = assignments.requests
    if n < SRM_MIN_ASSIGNMENTS or not 0 < weight < 1:
        return 1.0
    expected = n * weight
    away = max(abs(assignments.canary - expected) - in_flight, 0.0)
    if n * weight * (1 - weight) >= 25:
        z = max(away - 0.5, 0) / math.sqrt(n * weight * (1 - weight))
        return math.erfc(z / math.sqrt(2))
    rare = min(weight, 1 - weight)  # count the rarer arm, so the sums stay short
    low = math.floor(n * rare - away)
    high = math.ceil(n * rare + away)
    return min(_binomial_cdf(low, n, rare) + 1 - _binomial_cdf(high - 1, n, rare), 1.0)


def _binomial_cdf(k: int, n: int, p: float) -> float:
    if k < 0:
        return 0.0
    log_n = math.lgamma(n + 1)
    return math.fsum(
        math.exp(
            log_n
            - math.lgamma(i + 1)
            - math.lgamma(n - i + 1)
            + i * math.log(p)
            + (n - i) * math.log1p(-p)
        )
        for i in range(min(k, n) + 1)
    )


# -- verdicts -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """One guardrail: how far its evidence has come, and the counts behind it."""

    guardrail: Guardrail
    verdict: Verdict
    log_evidence: float
    log_peak: float
    log_limit: float
    canary_bad: int
    canary_base: int
    stable_bad: int
    stable_base: int

    @property
    def progress(self) -> float:
        """0 at no evidence, 1 at the limit; the way between is even in the logarithm."""
        return min(max(self.log_evidence / self.log_limit, 0.0), 1.0)

    def counts_text(self) -> str:
        return (
            f"{_rate(self.canary_bad, self.canary_base)} of canary requests "
            f"({self.canary_bad:,} of {self.canary_base:,}) against "
            f"{_rate(self.stable_bad, self.stable_base)} of stable "
            f"({self.stable_bad:,} of {self.stable_base:,})"
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...] = ()


NOUNS: Mapping[Guardrail, str] = {
    Guardrail.ERRORS: "Errors",
    Guardrail.REJECTIONS: "Rejections",
    Guardrail.CLIENT_FAULTS: "Client faults",
    Guardrail.LATENCY: "Slow answers",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What the verdict is built from; `Evidence` offers it."""

    log_l: Mapping[Guardrail, Sequence[float]]
    log_peak: Mapping[Guardrail, float]
    total: Arms
    step: Arms
    windows: Sequence[Window]
    timed: Arms  # of `total`, what the latency limit judged
    slo_bucket: int | None
    latency_allowance_ns: int = 0  # queue delay the config asks for; a small arm waits it out


def judge(counts: Counts, guardrails: Guardrails, *, min_requests: int) -> Judgement:
    findings = tuple(_finding(guardrail, counts, guardrails) for guardrail in guardrails.enabled())
    if stop := hard_stop(counts.step.canary, counts.step.stable, guardrails):
        return Judgement(Verdict.FAIL, stop, findings)
    if stop := slow_stop(counts, guardrails):
        return Judgement(Verdict.FAIL, stop, findings)
    for finding in findings:
        if finding.verdict is Verdict.FAIL:
            reason = (
                f"{NOUNS[finding.guardrail]}: {finding.counts_text()}. Chance alone is ruled out."
            )
            return Judgement(Verdict.FAIL, reason, findings)
    seen = counts.step.canary.requests
    if seen < min_requests:
        return Judgement(
            Verdict.WAITING, f"{seen:,} of {min_requests:,} canary requests seen.", findings
        )
    for finding in findings:
        if finding.verdict is Verdict.INCONCLUSIVE:
            reason = (
                f"{NOUNS[finding.guardrail]}: {finding.counts_text()}. "
                "Too much to go on, not enough to stop; more requests will tell."
            )
            return Judgement(Verdict.INCONCLUSIVE, reason, findings)
    return Judgement(Verdict.PASS, "No guardrail speaks against the canary.", findings)


def judge_bake(counts: Counts, guardrails: Guardrails) -> Judgement:
    """With all traffic on the canary nothing runs beside it: only hard stops against stable's past."""
    findings = tuple(_finding(guardrail, counts, guardrails) for guardrail in guardrails.enabled())
    stop = hard_stop(counts.step.canary, counts.total.stable, guardrails)
    if stop:
        return Judgement(Verdict.FAIL, stop, findings)
    return Judgement(Verdict.PASS, "No hard stop since the promotion.", findings)


def _finding(guardrail: Guardrail, counts: Counts, guardrails: Guardrails) -> Finding:
    evidence = log_evidence(counts.log_l.get(guardrail, NO_EVIDENCE))
    peak = max(counts.log_peak.get(guardrail, 0.0), evidence)
    limit = log_limit(guardrails.alpha())
    if peak >= limit:
        verdict = Verdict.FAIL
    elif evidence >= min(CAUTION_LOG_EVIDENCE, limit / 2):
        verdict = Verdict.INCONCLUSIVE
    else:
        verdict = Verdict.PASS
    arms = counts.timed if guardrail is Guardrail.LATENCY else counts.total
    canary, stable = arms.canary, arms.stable
    return Finding(
        guardrail=guardrail,
        verdict=verdict,
        log_evidence=evidence,
        log_peak=peak,
        log_limit=limit,
        canary_bad=canary.bad(guardrail, counts.slo_bucket),
        canary_base=canary.base(guardrail),
        stable_bad=stable.bad(guardrail, counts.slo_bucket),
        stable_base=stable.base(guardrail),
    )


def hard_stop(canary: Tally, stable: Tally, guardrails: Guardrails) -> str:
    """So many canary errors that no statistics are needed. "" when there are not."""
    if not guardrails.errors or canary.errors < guardrails.hard_stop_errors:
        return ""
    rate = canary.errors / canary.requests
    stable_rate = stable.errors / stable.requests if stable.requests else 0.0
    if rate <= guardrails.hard_stop_error_rate:
        return ""
    if rate <= guardrails.hard_stop_error_ratio * stable_rate:
        return ""
    return (
        f"Hard stop: {_rate(canary.errors, canary.requests)} of canary requests failed "
        f"({canary.errors:,} of {canary.requests:,}) against "
        f"{_rate(stable.errors, stable.requests)} of stable."
    )


def slow_stop(counts: Counts, guardrails: Guardrails) -> str:
    """p99 far above stable's in every one of the last windows, each with enough requests."""
    closed = counts.windows[:-1][-P99_WINDOWS:]
    if not guardrails.latency or len(closed) < P99_WINDOWS:
        return ""
    if sum(window.arms.canary.successes for window in closed) < guardrails.p99_min_requests:
        return ""
    pairs = [_p99_pair(window.arms) for window in closed]
    allowance_ms = counts.latency_allowance_ns / 1e6
    for pair in pairs:
        if pair is None:
            return ""
        canary_ms, stable_ms = pair
        if canary_ms <= above(stable_ms, ratio=guardrails.hard_stop_p99_ratio) + allowance_ms:
            return ""
    canary_ms, stable_ms = pairs[-1] or (0.0, 0.0)
    return (
        f"Hard stop: p99 of the canary is {canary_ms:.3g} ms against {stable_ms:.3g} ms of stable, "
        f"in {P99_WINDOWS} windows of 30 s."
    )


def above(stable_ms: float, *, ratio: float) -> float:
    """`ratio` times stable's latency, and never nearer to it than the noise of the machine."""
    return max(ratio * stable_ms, stable_ms + NOISE_MS)


def _p99_pair(arms: Arms) -> tuple[float, float] | None:
    if min(arms.canary.successes, arms.stable.successes) < P99_MIN_PER_WINDOW:
        return None
    canary_ms, stable_ms = arms.canary.percentile_ms(0.99), arms.stable.percentile_ms(0.99)
    if canary_ms is None or stable_ms is None:
        return None
    return canary_ms, stable_ms


def _rate(bad: int, base: int) -> str:
    return f"{100 * bad / base:.3g}%" if base else "–"
