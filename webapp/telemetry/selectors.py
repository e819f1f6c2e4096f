"""Reads of telemetry for other apps: what was served of late, and what happened meanwhile."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max, Q, QuerySet, Sum
from django.utils import timezone

from webapp.core.errors import InvalidInput
from webapp.serving.models import TrafficTable
from webapp.telemetry.grid import (
    EVERYTHING,
    Series,
    by_everything,
    by_model_counts,
    by_version,
    by_version_counts,
)
from webapp.telemetry.history import Selection, grid_read, newest_at
from webapp.telemetry.models import EventMark, RuntimeSample, ServingSample
from webapp.telemetry.ranges import DEFAULT_RANGE, RANGES, Window, window_for
from webapp.telemetry.totals import METRICS, NO_HISTOGRAM, Totals

STALE_AFTER = timedelta(seconds=5)
ROUTED_ARMS = ("stable", "canary", "default")  # requests that left the version to the runtime
MARKS_SHOWN = 200
SHARES_SECONDS = 30


def range_length(*, name: str) -> timedelta:
    try:
        return RANGES[name or DEFAULT_RANGE]
    except KeyError:
        raise InvalidInput(
            f"Unknown range {name!r}; one of {', '.join(RANGES)}.", reason="BAD_RANGE"
        ) from None


def serving_series(
    *,
    metric: str,
    range_name: str = DEFAULT_RANGE,
    selection: Selection = Selection(),  # noqa: B008 - frozen
    until: datetime | None = None,
) -> dict[str, Any]:
    """The metric over the range, one series per version; null where nothing is known."""
    if metric not in METRICS:
        raise InvalidInput(
            f"Unknown metric {metric!r}; one of {', '.join(METRICS)}.", reason="BAD_METRIC"
        )
    length = range_length(name=range_name)
    now = timezone.now()
    window = window_for(length=length, until=until or now, now=now)
    grid = grid_read(window=window, selection=selection, groupings=[by_version])
    range_name = range_name or DEFAULT_RANGE
    spec = METRICS[metric]
    versions: list[Any] = grid.busiest()
    items = [
        {
            "model": model,
            "version": version,
            "points": _points(window, grid.series((model, version), metric)[metric]),
            "reason": _missing_reason(metric, grid.totals((model, version))),
        }
        for model, version in versions
    ]
    return {
        "metric": metric,
        "unit": spec.unit,
        "formula": spec.formula,
        "range": range_name,
        "step_seconds": window.step,
        "items": items,
        "next_page_token": "",
    }


def _points(window: Window, series: Series) -> list[list[Any]]:
    return [[window.moment(i).isoformat(), value] for i, value in enumerate(series)]


def _missing_reason(metric: str, totals: Totals) -> str | None:
    histogram_lacks = totals.successes > 0 and not totals.latency
    return NO_HISTOGRAM if metric.startswith("latency_") and histogram_lacks else None


def arm_samples(
    *, model: str, after_id: int | None = None, since: datetime | None = None
) -> list[ServingSample]:
    """Samples of one second that requests without a version number made, oldest first."""
    rows = ServingSample.objects.filter(model_name=model, seconds=1).exclude(arm="")
    if after_id is not None:
        rows = rows.filter(id__gt=after_id)
    if since is not None:
        rows = rows.filter(at__gte=since)
    return list(rows.order_by("id"))


def requests_by_number(
    *, model: str, versions: Collection[int], moments: Collection[datetime]
) -> dict[tuple[datetime, int], int]:
    """(end of the interval, runtime) → requests that named one of the versions, such as those of a
    benchmark. They load a version without being part of the split."""
    rows = (
        ServingSample.objects.filter(model_name=model, seconds=1, arm="", version__in=versions)
        .filter(at__gte=min(moments), at__lte=max(moments))
        .values_list("at", "runtime_id")
        .annotate(total=Sum("requests"))
    )
    return {(at, runtime_id): total for at, runtime_id, total in rows}


def observed_shares(*, model: str, window_seconds: int = SHARES_SECONDS) -> dict[int, float]:
    """Version → share of the requests the router placed; empty without such requests.

    Of late, but not from before the shares were last changed, as soon as there is anything since.
    """
    since = timezone.now() - timedelta(seconds=window_seconds)
    changed = (
        TrafficTable.objects.filter(model__name=model).values_list("updated_at", flat=True).first()
    )
    counts: dict[int, int] = {}
    if changed is not None and changed > since:
        counts = _placed(model, changed + timedelta(seconds=1))
    counts = counts or _placed(model, since)
    total = sum(counts.values())
    return {version: placed / total for version, placed in counts.items()}


def _placed(model: str, since: datetime) -> dict[int, int]:
    rows = (
        ServingSample.objects.filter(model_name=model, seconds=1, at__gt=since, arm__in=ROUTED_ARMS)
        .values("version")
        .annotate(placed=Sum("requests"))
        .values_list("version", "placed")
    )
    return {version: placed for version, placed in rows if placed}


def rate_now(*, model: str, version: int | None = None, window_seconds: int = 10) -> float | None:
    """Requests per second of late; None while nothing is known."""
    totals = totals_now(model=model, version=version, window_seconds=window_seconds)
    return None if totals is None else totals.rate


def totals_now(
    *, model: str = "", version: int | None = None, runtime: str = "", window_seconds: int = 10
) -> Totals | None:
    """Counts, rate, gauges and latencies of the last seconds; None while nothing is known."""
    newest = newest_at(runtime=runtime)
    if newest is None or timezone.now() - newest > STALE_AFTER:
        return None
    window = Window(until=newest, step=window_seconds, count=1)
    selection = Selection(model=model, version=version, runtime=runtime)
    grid = grid_read(window=window, selection=selection, groupings=[by_everything])
    return grid.totals(EVERYTHING) if grid.known(EVERYTHING)[0] else None


def rates_now(*, window_seconds: int = 10) -> dict[tuple[str, int], float]:
    """(model, version) → requests per second of late, for whole lists in one query."""
    newest = newest_at()
    if newest is None or timezone.now() - newest > STALE_AFTER:
        return {}
    window = Window(until=newest, step=window_seconds, count=1)
    grid = grid_read(window=window, selection=Selection(), groupings=[by_version_counts])
    versions: list[Any] = grid.busiest()
    return {version: grid.totals(version).rate for version in versions}


def rate_history(
    *, models: Sequence[str] | None = None, range_name: str = "1h"
) -> dict[str, Series]:
    """Model → requests per second, few enough points for a sparkline."""
    length = range_length(name=range_name)
    now = timezone.now()
    step = max(int(length.total_seconds() // 60) // 10 * 10, 10)
    until = now - timedelta(seconds=now.timestamp() % step)
    window = Window(until=until, step=step, count=int(length.total_seconds() // step))
    grid = grid_read(window=window, selection=Selection(), groupings=[by_model_counts])
    names: list[Any] = list(models) if models is not None else grid.busiest()
    seen = set(grid.busiest())
    return {
        name: grid.series(name, "requests_per_second")["requests_per_second"]
        if name in seen
        else []
        for name in names
    }


def data_at() -> datetime | None:
    """How fresh the telemetry is: the newest sample of any runtime."""
    return newest_at()


def last_seen() -> dict[int, datetime]:
    """Runtime id → its newest sample."""
    rows = RuntimeSample.objects.filter(seconds=1).values("runtime_id").annotate(at=Max("at"))
    return {row["runtime_id"]: row["at"] for row in rows}


# -- event marks ------------------------------------------------------------------------------
def marks_between(
    *, since: datetime, until: datetime, model: str = "", runtime: str = ""
) -> list[EventMark]:
    """The newest of the window, oldest first; a mark without model or runtime concerns all."""
    rows = EventMark.objects.filter(at__gt=since, at__lte=until)
    return list(reversed(_concerning(rows, model, runtime).order_by("-id")[:MARKS_SHOWN]))


def _concerning(rows: QuerySet[EventMark], model: str, runtime: str) -> QuerySet[EventMark]:
    if model:
        rows = rows.filter(Q(model_name__in=("", model)))
    if runtime:
        rows = rows.filter(Q(runtime_name__in=("", runtime)))
    return rows


def marks_after(*, mark_id: int) -> list[EventMark]:
    return list(EventMark.objects.filter(id__gt=mark_id).order_by("id")[:MARKS_SHOWN])


def newest_mark_id() -> int:
    newest: int | None = EventMark.objects.aggregate(id=Max("id"))["id"]
    return newest or 0
