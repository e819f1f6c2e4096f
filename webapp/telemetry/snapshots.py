"""What a page is shown when it starts to watch: the last seconds, told like the live frames."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.utils import timezone

from webapp.catalog.models import InferenceModel
from webapp.serving.models import Runtime
from webapp.telemetry.deltas import RuntimeDelta, ServingDelta
from webapp.telemetry.frames import GOLDEN_TICKS, FrameBuilder, RuntimeView, resting
from webapp.telemetry.history import newest_at
from webapp.telemetry.models import RuntimeSample, ServingSample
from webapp.telemetry.readings import COUNTERS, ArmKey, RuntimeReading
from webapp.telemetry.selectors import STALE_AFTER, marks_between
from webapp.telemetry.serializers import mark_body

MARKS_WITHIN = timedelta(seconds=30)


def fleet_snapshot(name: str, user: AbstractUser) -> dict[str, Any] | None:
    return None if name else _snapshot("fleet")


def runtime_snapshot(name: str, user: AbstractUser) -> dict[str, Any] | None:
    if not Runtime.objects.filter(name=name).exists():
        return None
    return _snapshot(f"runtime:{name}")


def model_snapshot(name: str, user: AbstractUser) -> dict[str, Any] | None:
    known = (
        InferenceModel.objects.filter(name=name).exists()
        or ServingSample.objects.filter(model_name=name).exists()
    )
    return _snapshot(f"model:{name}", model=name) if known else None


def _snapshot(topic: str, *, model: str = "") -> dict[str, Any]:
    """The sampler's last frame, built again from what it wrote; older than it, never newer."""
    at = newest_at()
    if at is None:
        return {"telemetry": None}
    builder = FrameBuilder()
    frames: dict[str, dict[str, Any]] = {}
    marks = [mark_body(m) for m in marks_between(since=at - MARKS_WITHIN, until=timezone.now())]
    for moment, views in _ticks(at, model):
        frames = builder.frames(at=moment, runtimes=views, marks=marks)
    known = next(iter(frames.values()))["telemetry"]["known"] if frames else False
    frame = frames.get(topic) or _at_rest(at, frames, known=known)
    return {**frame, "at": at.isoformat()}


def _at_rest(at: datetime, frames: dict[str, Any], *, known: bool) -> dict[str, Any]:
    """A model of which no runtime spoke of late."""
    states = frames["fleet"]["telemetry"]["runtimes"] if frames else {}
    frame: dict[str, Any] = {
        "at": round(at.timestamp() * 1000), "known": known, "values": {}, "partial": False,
        "golden": resting(known=known), "runtimes": states, "scopes": {}, "marks": [],
    }  # fmt: skip
    return {"telemetry": frame}


def _ticks(newest: datetime, model: str) -> Iterable[tuple[datetime, list[RuntimeView]]]:
    since = newest - timedelta(seconds=GOLDEN_TICKS)
    covered = {
        (sample.at, sample.runtime_id): sample
        for sample in RuntimeSample.objects.filter(seconds=1, at__gt=since)
    }
    rows = ServingSample.objects.filter(seconds=1, at__gt=since)
    if model:
        rows = rows.filter(model_name=model)
    servings: dict[tuple[datetime, int], list[ServingSample]] = defaultdict(list)
    for row in rows:
        servings[row.at, row.runtime_id].append(row)
    runtimes = list(Runtime.objects.all())
    for at in sorted({at for at, _ in covered}):
        yield (
            at,
            [
                _view(r, covered.get((at, r.id)), servings.get((at, r.id), []), newest)
                for r in runtimes
            ],
        )


def _view(
    runtime: Runtime,
    sample: RuntimeSample | None,
    servings: list[ServingSample],
    newest: datetime,
) -> RuntimeView:
    if sample is None or timezone.now() - newest > STALE_AFTER:
        return RuntimeView(runtime.name, None, "not read at the last tick", runtime.last_seen_at)
    reading = RuntimeReading(
        epoch="",
        at_ns=0,
        arms={},
        versions={},
        memory_bytes=sample.memory_bytes,
        gpus=tuple(sample.gpus),
        gpu_note=sample.gpu_note,
    )
    deltas = tuple(_delta(row) for row in servings)
    return RuntimeView(
        runtime.name, RuntimeDelta(sample.span_ms, deltas, sample.cpu_percent, reading)
    )


def _delta(row: ServingSample) -> ServingDelta:
    return ServingDelta(
        key=ArmKey(row.model_name, row.version, row.arm),
        generation=row.generation,
        counts={name: getattr(row, name) for name in COUNTERS},
        latency={int(bucket): count for bucket, count in row.latency.items()},
        pending=row.pending,
        inflight=row.inflight,
    )
