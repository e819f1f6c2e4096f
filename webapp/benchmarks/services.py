"""Asks for benchmark runs and carries them out. The only writer of their state."""

import os
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.benchmarks import request_inputs
from webapp.benchmarks.choices import OPEN_STATES, BenchmarkProtocol, BenchmarkState
from webapp.benchmarks.load_plan import BadPlan, LoadPlan, load_plan
from webapp.benchmarks.measurement import Bench, Measured, NothingAnswered, Target
from webapp.benchmarks.models import BenchmarkPoint, BenchmarkRun
from webapp.benchmarks.report import benchmark_body
from webapp.catalog.models import ModelVersion
from webapp.core.errors import Conflict, ControlPlaneError, InvalidInput
from webapp.core.events import publish
from webapp.jobs.choices import JobKind, JobState
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.services import job_fence, job_heartbeat, job_request
from webapp.runtime_client.types import Tensor
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment, Runtime
from webapp.serving.selectors import client_for

_MAX_OPEN = 20


def benchmark_plan(*, values: dict[str, Any]) -> LoadPlan:
    """Reads ladder, window and batch size from an API body or a form."""
    try:
        return load_plan(
            concurrency=values.get("concurrency"),
            window_seconds=values.get("window_seconds"),
            batch_size=values.get("batch_size"),
        )
    except BadPlan as problem:
        raise InvalidInput(str(problem), reason="BAD_PLAN") from None


def benchmark_request(
    *,
    version: ModelVersion,
    protocol: str,
    plan: LoadPlan,
    actor: User,
    inputs: Any = None,
    runtime: Runtime | None = None,
) -> tuple[BenchmarkRun, Job]:
    """Writes the run and its job. Raises Conflict when the version is not in service anywhere."""
    require(actor=actor, action=Action.BENCHMARK)
    if protocol not in BenchmarkProtocol.values:
        raise InvalidInput(
            f"protocol: expected grpc or http, got {protocol!r}.", reason="BAD_PROTOCOL"
        )
    if inputs is not None:
        request_inputs.given(inputs)
    if BenchmarkRun.objects.filter(state__in=OPEN_STATES).count() >= _MAX_OPEN:
        raise Conflict(
            f"{_MAX_OPEN} benchmarks are waiting already.",
            reason="TOO_MANY_BENCHMARKS",
            help_text="Wait for some to end, or cancel them on the Benchmarks page.",
        )
    place = _place(version, runtime)
    with transaction.atomic():
        run = BenchmarkRun.objects.create(
            version=version,
            runtime=place,
            protocol=protocol,
            concurrency=list(plan.ladder),
            window_seconds=plan.window_seconds,
            batch_size=plan.batch_size,
            inputs=inputs,
            requested_by=actor,
        )
        job = job_request(
            kind=JobKind.RUN_BENCHMARK,
            subject_id=run.id,
            target=f"/api/v1/benchmarks/{run.id}",
            actor=actor,
            parameters={"model": version.model.name, "version": version.number},
        )
        run.job_id = job.id
        run.save(update_fields=["job_id"])
        audit_record(
            actor=actor,
            action="benchmark.request",
            target=f"benchmarks/{run.id}",
            after={"version": str(version), "protocol": protocol, "concurrency": run.concurrency},
        )
    return run, job


def _place(version: ModelVersion, runtime: Runtime | None) -> Runtime:
    found = Deployment.objects.filter(
        version=version, wanted=True, state=DeploymentState.AVAILABLE
    ).select_related("runtime")
    if runtime is not None:
        found = found.filter(runtime=runtime)
    deployment = found.order_by("-runtime__embedded", "id").first()
    if deployment is None:
        where = f" on {runtime.name}" if runtime else ""
        raise Conflict(
            f"{version} is not in service{where}.",
            reason="NOT_DEPLOYED",
            help_text="Deploy it first; a benchmark measures a version where it runs.",
        )
    return deployment.runtime


def benchmark_execute(*, claim: Claim) -> dict[str, Any] | None:
    """One attempt. Rungs that an earlier attempt finished are kept and not measured again."""
    run = (
        BenchmarkRun.objects.select_related("version__model", "runtime")
        .filter(id=claim.job.subject_id)
        .first()
    )
    if run is None or run.runtime is None:
        raise ControlPlaneError(
            "The benchmark or its runtime was removed meanwhile.", reason="SUBJECT_GONE"
        )
    _begin(claim, run)
    done = set(BenchmarkPoint.objects.filter(run=run).values_list("concurrency", flat=True))
    try:
        with Bench(_target(run, run.runtime), client_for(runtime=run.runtime)) as bench:
            for index, concurrency in enumerate(run.concurrency):
                if concurrency not in done:
                    _measure(claim, run, bench, index)
    except NothingAnswered as problem:
        raise ControlPlaneError(
            f"Every request failed. The first answer was: {problem}",
            reason="NOTHING_ANSWERED",
            help_text="Check that the version is in service and give real inputs if it needs some.",
        ) from None
    return _finish(claim, run)


def _begin(claim: Claim, run: BenchmarkRun) -> None:
    assert run.runtime is not None
    with transaction.atomic():
        job_fence(claim=claim)
        before = run.state
        run.state = BenchmarkState.RUNNING
        run.started_at = run.started_at or timezone.now()
        run.facts = {
            "server": f"{run.runtime.server_name} {run.runtime.server_version}".strip(),
            "client_cores": os.cpu_count(),
            "attempt": claim.job.attempt,
        }
        run.save(update_fields=["state", "started_at", "facts", "updated_at"])
        if run.state != before:  # not when another attempt goes on
            _audit(run, "benchmark.begin", before)
        _tell(run)


def _target(run: BenchmarkRun, runtime: Runtime) -> Target:
    address = runtime.grpc_address if run.protocol == "grpc" else runtime.http_address
    return Target(
        protocol=run.protocol,
        address=address,
        model=run.version.model.name,
        version=run.version.number,
        tensors=_tensors(run),
        concurrency_limit=max(run.concurrency),
    )


def _tensors(run: BenchmarkRun) -> list[Tensor]:
    if run.inputs is not None:
        return request_inputs.given(run.inputs)
    inputs = run.version.inputs
    batched = bool(inputs) and all(entry["shape"][:1] == [-1] for entry in inputs)
    return request_inputs.generated(inputs, batch_size=run.batch_size, batched=batched)


def _measure(claim: Claim, run: BenchmarkRun, bench: Bench, index: int) -> None:
    concurrency = run.concurrency[index]
    share = 1 / len(run.concurrency)

    def told(windows: int) -> None:
        job_heartbeat(
            claim=claim,
            progress=(index + min(windows / 10, 0.95)) * share,
            phase=f"concurrency {concurrency}, window {windows}",
        )
        claim.check()

    job_heartbeat(claim=claim, progress=index * share, phase=f"concurrency {concurrency}")
    claim.check()
    measured = bench.measure(
        concurrency,
        run.window_seconds,
        stopped=lambda: claim.cancelled or claim.lost,
        told=told,
    )
    _keep(claim, run, concurrency, measured)


def _keep(claim: Claim, run: BenchmarkRun, concurrency: int, measured: Measured) -> None:
    figures = measured.figures
    with transaction.atomic():
        job_fence(claim=claim)
        BenchmarkPoint.objects.update_or_create(
            run=run,
            concurrency=concurrency,
            defaults={
                "throughput": figures.requests_per_second * run.batch_size,
                "p50_ms": figures.p50_ms,
                "p90_ms": figures.p90_ms,
                "p95_ms": figures.p95_ms,
                "p99_ms": figures.p99_ms,
                "queue_ms": figures.queue_ms,
                "compute_ms": figures.compute_ms,
                "realised_batch_size": figures.batch_size,
                "requests": figures.requests,
                "errors": figures.errors,
                "windows": measured.windows,
                "stable": measured.stable,
                "client_cpu_percent": figures.client_cpu_percent,
            },
        )
        _tell(run)


def _finish(claim: Claim, run: BenchmarkRun) -> dict[str, Any]:
    unstable = list(
        BenchmarkPoint.objects.filter(run=run, stable=False).values_list("concurrency", flat=True)
    )
    state = BenchmarkState.UNSTABLE if unstable else BenchmarkState.SUCCEEDED
    with transaction.atomic():
        job_fence(claim=claim)
        before = run.state
        run.state = state
        run.ended_at = timezone.now()
        if unstable:
            rungs = ", ".join(map(str, unstable))
            run.reason = (
                f"Not within 10% over three windows at concurrency {rungs}. Something else used "
                "the machine, or longer windows are needed."
            )
        run.save(update_fields=["state", "ended_at", "reason", "updated_at"])
        _audit(run, "benchmark.end", before)
        _tell(run)
    return {"state": state.value, "points": len(run.concurrency)}


def benchmark_settle_lost(*, job: Job) -> None:
    """The job ended without success: so does the run, unless it has its end already."""
    state = BenchmarkState.CANCELLED if job.state == JobState.CANCELLED else BenchmarkState.FAILED
    error = job.error or {}
    run = BenchmarkRun.objects.filter(id=job.subject_id).first()
    if run is None or run.state not in OPEN_STATES:
        return
    before = run.state
    moved = BenchmarkRun.objects.filter(id=run.id, state=before).update(
        state=state,
        reason=str(error.get("detail", ""))[:1000],
        ended_at=timezone.now(),
        updated_at=timezone.now(),
    )
    if moved:
        run.refresh_from_db()
        _audit(run, "benchmark.end", before)
        _tell(run)


def _audit(run: BenchmarkRun, action: str, before: str) -> None:
    audit_record(
        actor=None,
        action=action,
        target=f"benchmarks/{run.id}",
        before={"state": before},
        after={"state": run.state},
        note=run.reason,
    )


def _tell(run: BenchmarkRun) -> None:
    publish(topic=f"benchmark:{run.id}", data=benchmark_body(run))
