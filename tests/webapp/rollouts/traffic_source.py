"""Seeded traffic for tests of the pure parts: moments of a canary and a stable version."""

from collections.abc import Iterator

import numpy as np

from inference_runtime.spec.latency import bucket_of
from webapp.rollouts.measurements import Arms, Moment, Tally


def tally(requests: int, *, errors: int = 0, latency_ms: float = 5.0, **counts: int) -> Tally:
    bad = errors + counts.get("rejections", 0) + counts.get("client_faults", 0)
    answered = requests - bad
    latency = {bucket_of(round(latency_ms * 1e6)): answered} if answered else {}
    return Tally(requests=requests, errors=errors, latency=latency, **counts)


def drawn(rng: np.random.Generator, requests: int, error_rate: float, median_ms: float) -> Tally:
    errors = int(rng.binomial(requests, error_rate))
    latency: dict[int, int] = {}
    for value in rng.lognormal(np.log(median_ms * 1e6), 0.4, requests - errors):
        bucket = bucket_of(int(value))
        latency[bucket] = latency.get(bucket, 0) + 1
    return Tally(requests=requests, errors=errors, latency=latency)


def moments(
    *,
    weight: float,
    rate: float,
    seconds: int,
    seed: int = 1,
    canary: tuple[float, float] = (0.0, 5.0),  # error rate, median latency in ms
    stable: tuple[float, float] = (0.0, 5.0),
    start: float = 0.0,
) -> Iterator[Moment]:
    rng = np.random.default_rng(seed)
    for second in range(1, seconds + 1):
        requests = int(rng.poisson(rate))
        on_canary = int(rng.binomial(requests, weight))
        yield Moment(
            arms=Arms(
                canary=drawn(rng, on_canary, *canary),
                stable=drawn(rng, requests - on_canary, *stable),
            ),
            at=start + second,
            weight=weight,
        )
