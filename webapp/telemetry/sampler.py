"""The sampler process: one tick a second, one leader, samples in one transaction, frames after it."""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from webapp.core.events import publish_many
from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.connections import connect
from webapp.serving.models import Runtime
from webapp.telemetry.collector import Collector, Observation, RuntimeRow
from webapp.telemetry.deltas import RuntimeDelta, ServingDelta
from webapp.telemetry.frames import FrameBuilder
from webapp.telemetry.lease import holder_name, lease_release, lease_renew, lease_take
from webapp.telemetry.models import EventMark, RuntimeSample, ServingSample
from webapp.telemetry.rollups import samples_prune, samples_roll_up
from webapp.telemetry.selectors import marks_after, newest_mark_id
from webapp.telemetry.serializers import mark_body
from webapp.telemetry.services import marks_of_changes

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 60  # how often an idle version gets a row, so that charts know of it
UNSAVED_TICKS = 120  # kept in memory while the database does not take them
BUSY_MS = 700  # a tick must not wait for the write lock longer than this


@dataclass(frozen=True, slots=True)
class Tick:
    """What one second found, on its way to the tables."""

    serving: list[ServingSample]
    runtime: list[RuntimeSample]
    marks: list[EventMark]


@dataclass(slots=True)
class _Outage:
    """Tells of a failure when it starts and when it ends, not at every tick."""

    what: str
    since: datetime | None = None

    def failed(self, problem: Exception) -> None:
        if self.since is None:
            self.since = timezone.now()
            logger.warning("%s: %s", self.what, problem)

    def passed(self) -> None:
        if self.since is not None:
            logger.info("%s: over after %s", self.what, timezone.now() - self.since)
            self.since = None


@dataclass(slots=True)
class Sampler:
    holder: str = field(default_factory=holder_name)
    leading: bool = False
    ticks: int = 0
    _collector: Collector = field(init=False)
    _frames: FrameBuilder = field(default_factory=FrameBuilder)
    _unsaved: deque[Tick] = field(default_factory=lambda: deque(maxlen=UNSAVED_TICKS))
    _rows: list[Runtime] = field(default_factory=list)
    _mark_id: int = 0
    _outage: _Outage = field(default_factory=lambda: _Outage("database not usable"))

    def __post_init__(self) -> None:
        self._collector = Collector(_connection)

    def run(self, stop: Event) -> None:
        logger.info("sampler %s started", self.holder)
        try:
            while not stop.wait(seconds_to_next(timezone.now())):
                self.tick(at=whole_second(timezone.now()))
        finally:
            self.close()

    def close(self) -> None:
        self._collector.close()
        if self.leading:
            try:
                lease_release(holder=self.holder)
            except DatabaseError as problem:
                logger.warning("lease not released, it ends by itself: %s", problem)
        logger.info("sampler %s stopped", self.holder)

    def tick(self, *, at: datetime) -> bool:
        """One second's work; False while another sampler leads."""
        self.ticks += 1
        _be_impatient()
        if not self._lead():
            return False
        self._refresh_rows()
        observations = self._collector.observe(self._rows, at=at)
        self._unsaved.append(_tick_of(observations, at))
        if not self._save():
            return self.leading
        self._publish(observations, at)
        self._tidy()
        return True

    # -- leading ------------------------------------------------------------------------------
    def _lead(self) -> bool:
        if self.leading:
            return True
        try:
            self.leading = lease_take(holder=self.holder)
            self._mark_id = newest_mark_id() if self.leading else 0
        except DatabaseError as problem:
            self.leading = False
            self._lost_database(problem)
        if self.leading:
            self._outage.passed()
            logger.info("sampler %s leads", self.holder)
            self._collector.forget()
            self._frames = FrameBuilder()
        return self.leading

    def _stand_by(self) -> None:
        logger.warning("sampler %s lost the lead", self.holder)
        self.leading = False
        self._unsaved.clear()
        self._collector.forget()

    # -- the database -------------------------------------------------------------------------
    def _refresh_rows(self) -> None:
        try:
            self._rows = list(Runtime.objects.all())
        except DatabaseError as problem:  # go on with the runtimes last known
            self._lost_database(problem)

    def _save(self) -> bool:
        """Everything unsaved, with the lease, in one transaction. False: the lead is lost."""
        try:
            with transaction.atomic():
                led = lease_renew(holder=self.holder)
                if led:
                    self._write()
        except DatabaseError as problem:
            self._lost_database(problem)
            return True  # go on and show what is seen; the rows wait in memory
        if not led:
            self._stand_by()
            return False
        self._unsaved.clear()
        self._outage.passed()
        return True

    def _write(self) -> None:
        known = {row.id for row in self._rows}  # a runtime may be gone since its rows were made
        serving = [s for tick in self._unsaved for s in tick.serving if s.runtime_id in known]
        runtime = [s for tick in self._unsaved for s in tick.runtime if s.runtime_id in known]
        ServingSample.objects.bulk_create(serving)
        RuntimeSample.objects.bulk_create(runtime)
        EventMark.objects.bulk_create([mark for tick in self._unsaved for mark in tick.marks])

    def _tidy(self) -> None:
        try:
            if self.ticks % 2:
                samples_roll_up()
            else:
                samples_prune()
        except DatabaseError as problem:
            self._lost_database(problem)

    def _lost_database(self, problem: DatabaseError) -> None:
        self._outage.failed(problem)
        if not connection.in_atomic_block:
            connection.close()

    # -- the live page ------------------------------------------------------------------------
    def _publish(self, observations: Sequence[Observation], at: datetime) -> None:
        frames = self._frames.frames(
            at=at,
            runtimes=[observation.view for observation in observations],
            marks=self._new_marks(),
        )
        publish_many(events=frames, at=at)

    def _new_marks(self) -> list[dict[str, object]]:
        try:
            marks = marks_after(mark_id=self._mark_id)
        except DatabaseError as problem:
            self._lost_database(problem)
            return []
        if marks:
            self._mark_id = marks[-1].id
        return [mark_body(mark) for mark in marks]


def _connection(row: RuntimeRow) -> RuntimeConnection:
    return connect(
        http_address=row.http_address,
        grpc_address=row.grpc_address,
        metrics_address=row.metrics_address,
    )


def _be_impatient() -> None:
    """Web requests may wait 20 s for SQLite's write lock; a tick may not."""
    if connection.vendor != "sqlite":
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    except DatabaseError:
        connection.close()


def whole_second(moment: datetime) -> datetime:
    return (moment + timedelta(milliseconds=500)).replace(microsecond=0)


def seconds_to_next(moment: datetime) -> float:
    """To the next full second of the wall clock: computed anew each time, so nothing drifts."""
    rest = 1.0 - moment.microsecond / 1e6
    return rest if rest > 0.05 else rest + 1.0  # woken a little early: not twice for one second


def _tick_of(observations: Sequence[Observation], at: datetime) -> Tick:
    tick = Tick([], [], [])
    for runtime_id, view in ((o.runtime_id, o.view) for o in observations):
        if view.delta is None:
            continue
        tick.runtime.append(runtime_sample(view.delta, runtime_id=runtime_id, at=at))
        tick.serving.extend(
            serving_sample(serving, runtime_id=runtime_id, at=at)
            for serving in view.delta.servings
            if not serving.idle or keeps_alive(serving, view.delta, at)
        )
        tick.marks.extend(marks_of_changes(delta=view.delta, runtime_name=view.name))
    return tick


def keeps_alive(serving: ServingDelta, delta: RuntimeDelta, at: datetime) -> bool:
    """Once a minute for what is loaded, each version at its own second."""
    version = (serving.key.model, serving.key.version)
    if version not in delta.reading.versions:
        return False
    turn = sum(serving.key.model.encode()) + serving.key.version
    return int(at.timestamp()) % KEEP_ALIVE_SECONDS == turn % KEEP_ALIVE_SECONDS


def serving_sample(serving: ServingDelta, *, runtime_id: int, at: datetime) -> ServingSample:
    return ServingSample(
        at=at,
        seconds=1,
        runtime_id=runtime_id,
        model_name=serving.key.model,
        version=serving.key.version,
        arm=serving.key.arm,
        generation=serving.generation,
        pending=serving.pending,
        inflight=serving.inflight,
        latency={str(bucket): count for bucket, count in serving.latency.items()},
        **serving.counts,
    )


def runtime_sample(delta: RuntimeDelta, *, runtime_id: int, at: datetime) -> RuntimeSample:
    reading = delta.reading
    return RuntimeSample(
        at=at,
        seconds=1,
        runtime_id=runtime_id,
        span_ms=delta.span_ms,
        cpu_percent=delta.cpu_percent,
        memory_bytes=reading.memory_bytes,
        gpus=[dict(gpu) for gpu in reading.gpus],
        gpu_note=reading.gpu_note[:300],
        notes=reading.notes[:300],
    )
