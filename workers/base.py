"""Carries out one attempt at a job: claim, keep the lease alive, settle once, whatever happens."""

import logging
import os
import platform
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from django.db import DatabaseError, connections

from webapp.audit.services import audit_cause
from webapp.core.errors import ControlPlaneError
from webapp.core.runtime_faults import control_plane_error
from webapp.jobs.claims import Claim, JobCancelled, LeaseLost
from webapp.jobs.services import (
    HEARTBEAT_SECONDS,
    job_cancelled,
    job_claim,
    job_fail,
    job_heartbeat,
    job_release,
    job_succeed,
)
from webapp.runtime_client.errors import RuntimeProblem

logger = logging.getLogger(__name__)

Work = Callable[[Claim], dict[str, Any] | None]


def run_job(job_id: str, work: Work, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
    """Returns quietly when the job is gone, settled or somebody else's: wake-ups may be doubled."""
    with StopSignal() as stop:
        claim = job_claim(job_id=job_id, worker=worker_name())
        if claim is None:
            logger.info("job %s: nothing to do", job_id)
            return
        logger.info("job %s (%s): attempt %d", job_id, claim.job.kind, claim.job.attempt)
        with Heartbeat(claim, seconds=heartbeat_seconds):
            try:
                stop.may_interrupt()
                _settle(claim, work)
            except (SystemExit, KeyboardInterrupt):
                # Told to stop. Handing the job back costs it no attempt and no waiting.
                if not claim.settled and job_release(claim=claim):
                    logger.info("job %s: handed back, the worker stops", job_id)
                raise


def _settle(claim: Claim, work: Work) -> None:
    try:
        with audit_cause(cause=claim.job.api_path):
            result = work(claim)
    except LeaseLost:
        logger.warning("job %s: lease lost, outcome dropped", claim.job.id)
    except JobCancelled:
        job_cancelled(claim=claim)
    except (ControlPlaneError, RuntimeProblem) as fault:
        error = control_plane_error(fault) if isinstance(fault, RuntimeProblem) else fault
        job_fail(claim=claim, reason=error.reason, detail=error.detail, fix=error.help_text)
    except Exception as error:
        logger.exception("job %s (%s) failed", claim.job.id, claim.job.kind)
        job_fail(
            claim=claim,
            reason="INTERNAL",
            detail=f"{type(error).__name__}: {error}",
            fix=f"The worker's log has the details; look for {claim.job.id}.",
        )
    else:
        if not claim.settled and not job_succeed(claim=claim, result=result):
            logger.warning("job %s: lease lost at the end, outcome dropped", claim.job.id)


class StopSignal:
    """SIGTERM, turned into SystemExit inside the work: not before the job is in our hands, and not
    again while it is handed back. A supervisor tells the whole group, and the parent its pool
    processes once more; the default would end the process with the job still in its name."""

    def __init__(self) -> None:
        self._may_interrupt = False
        self._told = False
        self._before: Any = None
        self._main = threading.current_thread() is threading.main_thread()

    def may_interrupt(self) -> None:
        self._may_interrupt = True
        if self._told:
            raise SystemExit(0)

    def __enter__(self) -> Self:
        if self._main:
            self._before = signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._main:
            signal.signal(signal.SIGTERM, self._before)
        if self._told and error is None:
            raise SystemExit(0)

    def _hear(self, signum: int, frame: FrameType | None) -> None:
        first, self._told = not self._told, True
        if first and self._may_interrupt:
            raise SystemExit(0)


def worker_name() -> str:
    return f"{platform.node()}:{os.getpid()}"


class Heartbeat:
    """Renews the lease from a thread of its own, so that long calls need not think of it."""

    def __init__(self, claim: Claim, *, seconds: float) -> None:
        self._claim = claim
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._beat, name=f"lease-{claim.job.id}", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=self._seconds + 5)

    def _beat(self) -> None:
        try:
            while not self._stop.wait(self._seconds):
                self._renew()
        finally:
            connections.close_all()

    def _renew(self) -> None:
        if self._claim.settled:
            return
        try:
            job_heartbeat(claim=self._claim)
        except DatabaseError as error:
            # The lease outlives several beats, so one that fails is only worth a line.
            logger.warning("job %s: lease not renewed: %s", self._claim.job.id, error)
            connections.close_all()
