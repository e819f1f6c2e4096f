"""Old seconds become tens of seconds, then minutes, then nothing. Small steps, safe to repeat."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models, transaction
from django.db.models import Max, Min
from django.utils import timezone

from inference_runtime.spec.latency import merge
from webapp.telemetry.models import EventMark, RuntimeSample, ServingSample
from webapp.telemetry.ranges import KEPT, SLACK
from webapp.telemetry.readings import COUNTERS

SOURCES = {10: 1, 60: 10}  # coarse seconds → the finer samples it is made of
MAX_BUCKETS = 6  # per call: after a stop the rest follows in the next ones
PRUNE_ROWS = 900  # SQLite takes 999 parameters at most in old versions
EVENTS_KEPT = timedelta(days=90)
_GPU_MEANS = ("utilization", "power_watts")


def samples_roll_up(*, now: datetime | None = None) -> int:
    """Writes the coarse samples that are complete and not there yet; says how many intervals."""
    moment = now or timezone.now()
    return sum(_roll_up(seconds, source, moment) for seconds, source in SOURCES.items())


def _roll_up(seconds: int, source: int, now: datetime) -> int:
    done = 0
    while done < MAX_BUCKETS and (end := _next_bucket(seconds, source, now)) is not None:
        _bucket_write(seconds, source, end)
        done += 1
    return done


def _next_bucket(seconds: int, source: int, now: datetime) -> datetime | None:
    """The end of the oldest interval with finer samples and no coarse one, if it is over."""
    made = RuntimeSample.objects.filter(seconds=seconds, at__lte=now).aggregate(at=Max("at"))["at"]
    finer = RuntimeSample.objects.filter(seconds=source)
    if made is not None:
        finer = finer.filter(at__gt=made)
    first: datetime | None = finer.aggregate(at=Min("at"))["at"]
    if first is None:
        return None
    end = bucket_end(first, seconds)
    # A tick writes a moment after the second it is for; by then the interval is whole.
    return end if end + timedelta(seconds=source + 1) <= now else None


def bucket_end(at: datetime, seconds: int) -> datetime:
    """The end of the interval (end - seconds, end] that holds `at`."""
    return datetime.fromtimestamp(-(-at.timestamp() // seconds) * seconds, tz=UTC)


def _bucket_write(seconds: int, source: int, end: datetime) -> None:
    inside: dict[str, Any] = {
        "seconds": source,
        "at__gt": end - timedelta(seconds=seconds),
        "at__lte": end,
    }
    with transaction.atomic():
        ServingSample.objects.bulk_create(
            serving_merged(ServingSample.objects.filter(**inside), seconds=seconds, at=end)
        )
        RuntimeSample.objects.bulk_create(
            runtime_merged(
                RuntimeSample.objects.filter(**inside).order_by("at"), seconds=seconds, at=end
            )
        )


def serving_merged(
    samples: Iterable[ServingSample], *, seconds: int, at: datetime
) -> list[ServingSample]:
    """One sample per runtime, version, arm and generation: counts added, gauges at their peak."""
    merged: dict[tuple[int, str, int, str, int], ServingSample] = {}
    for sample in samples:
        key = (
            sample.runtime_id,
            sample.model_name,
            sample.version,
            sample.arm,
            sample.generation,
        )
        into = merged.get(key)
        if into is None:
            into = merged[key] = ServingSample(
                at=at,
                seconds=seconds,
                runtime_id=sample.runtime_id,
                model_name=sample.model_name,
                version=sample.version,
                arm=sample.arm,
                generation=sample.generation,
            )
        for counter in COUNTERS:
            setattr(into, counter, getattr(into, counter) + getattr(sample, counter))
        into.pending = _peak(into.pending, sample.pending)
        into.inflight = _peak(into.inflight, sample.inflight)
        into.latency = merge(into.latency, sample.latency)
    return list(merged.values())


def runtime_merged(
    samples: Iterable[RuntimeSample], *, seconds: int, at: datetime
) -> list[RuntimeSample]:
    groups: dict[int, list[RuntimeSample]] = defaultdict(list)
    for sample in samples:
        groups[sample.runtime_id].append(sample)
    return [
        RuntimeSample(
            at=at,
            seconds=seconds,
            runtime_id=runtime_id,
            span_ms=sum(sample.span_ms for sample in group),
            cpu_percent=_mean([sample.cpu_percent for sample in group]),
            memory_bytes=_peak(*(sample.memory_bytes for sample in group)),
            gpus=_gpus_merged(group),
            gpu_note=group[-1].gpu_note,
            notes=group[-1].notes,
        )
        for runtime_id, group in groups.items()
    ]


def _gpus_merged(group: list[RuntimeSample]) -> list[dict[str, Any]]:
    """Means of what flows, peaks of what can run out."""
    readings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for sample in group:
        for gpu in sample.gpus:
            readings[str(gpu.get("uuid"))].append(gpu)
    merged = []
    for gpus in readings.values():
        into = dict(gpus[-1])
        for name in _GPU_MEANS:
            into[name] = _mean([gpu.get(name) for gpu in gpus])
        for name in ("memory_used_bytes", "temperature_celsius"):
            into[name] = _peak(*(gpu.get(name) for gpu in gpus))
        merged.append(into)
    return merged


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 3) if known else None


def _peak(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)


def samples_prune(*, now: datetime | None = None, rows: int = PRUNE_ROWS) -> int:
    """Deletes at most `rows` samples of each kind and resolution; short write locks only."""
    moment = now or timezone.now()
    gone = 0
    for seconds, kept in KEPT.items():
        for table in (ServingSample, RuntimeSample):
            old = table.objects.filter(seconds=seconds, at__lt=moment - kept - SLACK)
            gone += _delete_some(table, old.values_list("pk", flat=True).order_by("at")[:rows])
    return gone


def events_prune(*, now: datetime | None = None) -> int:
    old = EventMark.objects.filter(at__lt=(now or timezone.now()) - EVENTS_KEPT)
    return _delete_some(EventMark, old.values_list("pk", flat=True)[:PRUNE_ROWS])


def _delete_some(table: type[models.Model], keys: Iterable[Any]) -> int:
    found = list(keys)
    if not found:
        return 0
    deleted, _ = table._default_manager.filter(pk__in=found).delete()
    return deleted
