"""Reads samples of a window into a grid: coarse ones as far as they go, finer ones for the rest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
from django.db.models import Max, QuerySet, TextField
from django.db.models.functions import Cast

from webapp.telemetry.grid import Grid, Grouping, Placed, Series
from webapp.telemetry.models import RuntimeSample, ServingSample
from webapp.telemetry.ranges import RESOLUTIONS, Window, resolution_of
from webapp.telemetry.totals import rounded


class _Row(NamedTuple):
    """A serving sample without the model around it."""

    at: datetime
    latency: Mapping[str, int]
    runtime_id: int
    model_name: str
    version: int
    arm: str
    requests: int
    failures: int
    client_faults: int
    rejections: int
    timeouts: int
    cancellations: int
    inferences: int
    executions: int
    queue_ns: int
    compute_ns: int
    pending: int | None
    inflight: int | None


_COLUMNS = _Row._fields[2:]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which samples a chart is about; empty means all."""

    model: str = ""
    version: int | None = None
    runtime: str = ""


def grid_read(*, window: Window, selection: Selection, groupings: Sequence[Grouping]) -> Grid:
    grid = Grid(window, groupings)
    parts = list(_parts(window))
    for part in parts:
        for runtime_id, at, span_ms in _runtime_rows(part, selection).values_list(
            "runtime_id", "at", "span_ms"
        ):
            grid.cover(runtime_id=runtime_id, at=at, span_ms=span_ms)
    for part in parts:
        rows = ServingSample.objects.filter(**part)
        if selection.model:
            rows = rows.filter(model_name=selection.model)
        if selection.version is not None:
            rows = rows.filter(version=selection.version)
        if selection.runtime:
            rows = rows.filter(runtime__name=selection.runtime)
        grid.add_all(_decoded(rows))
    return grid


def _decoded(rows: QuerySet[ServingSample]) -> Iterator[Placed]:
    """Times and histograms as text, decoded here: the fields' own decoders cost as much again."""
    moments: dict[str, datetime] = {}
    texts = rows.annotate(
        at_text=Cast("at", TextField()), latency_text=Cast("latency", TextField())
    ).values_list("at_text", "latency_text", *_COLUMNS)
    for at_text, latency_text, *values in texts.iterator(chunk_size=2000):
        at = moments.get(at_text)
        if at is None:
            at = moments[at_text] = _moment(at_text)
        yield _Row(at, orjson.loads(latency_text), *values)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def devices_read(*, window: Window, selection: Selection) -> dict[str, dict[str, Series]]:
    """Metric → "runtime" or "runtime|gpu" → series."""
    series: dict[str, dict[str, Series]] = {}
    for part in _parts(window):
        for name, at, metric_values in _device_rows(part, selection):
            index = window.index_of(at)
            if not 0 <= index < window.count:
                continue
            for metric, device, value in metric_values:
                line = series.setdefault(metric, {}).setdefault(
                    f"{name}|{device}" if device else name, [None] * window.count
                )
                line[index] = rounded(value)
    return series


def newest_at(*, runtime: str = "") -> datetime | None:
    """When the newest sample was taken."""
    rows = RuntimeSample.objects.filter(seconds=1)
    if runtime:
        rows = rows.filter(runtime__name=runtime)
    newest: datetime | None = rows.aggregate(at=Max("at"))["at"]
    return newest


def gpu_reasons(*, runtime: str = "") -> dict[str, str]:
    """Runtime → why it shows no GPU, by its newest sample; only those without one."""
    reasons: dict[str, str] = {}
    rows = RuntimeSample.objects.filter(seconds=1)
    if runtime:
        rows = rows.filter(runtime__name=runtime)
    newest = rows.values("runtime").annotate(newest=Max("id")).values_list("newest", flat=True)
    for sample in RuntimeSample.objects.filter(id__in=list(newest)).select_related("runtime"):
        if not sample.gpus:
            reasons[sample.runtime.name] = sample.gpu_note or "the runtime gives no reason"
    return reasons


def _parts(window: Window) -> Iterator[dict[str, Any]]:
    """Filters whose samples follow each other without gap or overlap, coarse ones first."""
    since = window.since
    for seconds in reversed(RESOLUTIONS):
        if seconds > resolution_of(window):
            continue
        until = window.until
        if seconds > RESOLUTIONS[0]:
            made = RuntimeSample.objects.filter(seconds=seconds).aggregate(at=Max("at"))["at"]
            until = min(made, until) if made is not None else since
        if until > since:
            yield {"seconds": seconds, "at__gt": since, "at__lte": until}
            since = until


def _runtime_rows(part: dict[str, Any], selection: Selection) -> Any:
    rows = RuntimeSample.objects.filter(**part)
    return rows.filter(runtime__name=selection.runtime) if selection.runtime else rows


_Reading = tuple[str, str, float | None]  # metric, device, value


def _device_rows(
    part: dict[str, Any], selection: Selection
) -> Iterator[tuple[str, datetime, list[_Reading]]]:
    rows = _runtime_rows(part, selection).values_list(
        "runtime__name", "at", "cpu_percent", "memory_bytes", "gpus"
    )
    for name, at, cpu_percent, memory_bytes, gpus in rows.iterator(chunk_size=2000):
        readings: list[_Reading] = [
            ("cpu_percent", "", cpu_percent),
            ("memory_bytes", "", memory_bytes),
        ]
        for gpu in gpus:
            device = str(gpu.get("uuid"))
            readings += [
                ("gpu_utilization", device, gpu.get("utilization")),
                ("gpu_memory_bytes", device, gpu.get("memory_used_bytes")),
                ("gpu_power_watts", device, gpu.get("power_watts")),
                ("gpu_temperature_celsius", device, gpu.get("temperature_celsius")),
            ]
        yield name, at, readings
