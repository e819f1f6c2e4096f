"""The Prometheus text form: labels, numbers, histograms and summaries as lines."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

from inference_runtime.telemetry.durations import DurationSeries

Source = TypeVar("Source")

# suffix of the family's name, labels in their text form, value
Sample = tuple[str, str, float]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class Family(Generic[Source]):
    """One metric name, and how its samples are drawn from a `Source`."""

    name: str
    kind: str  # counter, gauge, histogram, summary
    help: str
    samples: Callable[[Source], Iterable[Sample]]


def labels_text(labels: Mapping[str, str], *last: tuple[str, str]) -> str:
    """Alphabetical, as clients match whole strings; `last` is for `le` and `quantile`, which end the list."""
    pairs = [*sorted(labels.items()), *last]
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs) + "}"


def number_text(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "NaN" if math.isnan(value) else repr(value).removesuffix(".0")


def histogram(
    labels: Mapping[str, str], bounds: Sequence[float], counts: Sequence[int], total: float
) -> Iterable[Sample]:
    """`counts` has one entry per bound and one for what is above all of them."""
    running = list(accumulate(counts))
    for bound, count in zip(bounds, running, strict=False):
        yield "_bucket", labels_text(labels, ("le", number_text(bound))), count
    yield "_bucket", labels_text(labels, ("le", "+Inf")), running[-1]
    yield "_sum", labels_text(labels), total
    yield "_count", labels_text(labels), running[-1]


def quantiles(
    labels: Mapping[str, str], wanted: Iterable[float], series: DurationSeries
) -> Iterable[Sample]:
    """A summary in microseconds."""
    for quantile in wanted:
        value_ns = series.quantile_ns(quantile)
        value = float("nan") if value_ns is None else round(value_ns / 1000)
        yield "", labels_text(labels, ("quantile", f"{quantile:g}")), value
    yield "_sum", labels_text(labels), series.total_ns // 1000
    yield "_count", labels_text(labels), series.count


def render(families: Iterable[Family[Source]], source: Source) -> str:
    """A family without samples is left out."""
    lines: list[str] = []
    for family in families:
        samples = [
            f"{family.name}{suffix}{labels} {number_text(value)}"
            for suffix, labels, value in family.samples(source)
        ]
        if samples:
            lines.append(f"# HELP {family.name} {family.help}")
            lines.append(f"# TYPE {family.name} {family.kind}")
            lines.extend(samples)
    lines.append("")
    return "\n".join(lines)
