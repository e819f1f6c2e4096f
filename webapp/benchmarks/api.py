"""REST: ask for a benchmark, follow it, list them."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.benchmarks import schema
from webapp.benchmarks.choices import BenchmarkProtocol
from webapp.benchmarks.load_plan import LoadPlan
from webapp.benchmarks.models import BenchmarkRun
from webapp.benchmarks.report import benchmark_body
from webapp.benchmarks.selectors import run_get, run_list
from webapp.benchmarks.services import benchmark_plan, benchmark_request
from webapp.catalog.selectors import version_get
from webapp.core.api import (
    ApiView,
    IfMatch,
    body_of,
    call,
    check_if_match,
    filtered,
    operation_response,
    page,
    tagged,
    tried,
    validate_only,
)
from webapp.core.json_schema import NO_FIELDS
from webapp.jobs.models import Job
from webapp.jobs.selectors import job_get
from webapp.jobs.services import job_cancel
from webapp.serving.selectors import runtime_get

_FILTERS = {
    "model": "version__model__name",
    "version": "version__number",
    "state": "state",
    "protocol": "protocol",
}


class BenchmarkList(ApiView):
    write_action = Action.BENCHMARK

    @call(
        "listBenchmarks",
        schema.BENCHMARKS,
        paged=True,
        filters=_FILTERS,
        query={"state": schema.STATE, "protocol": schema.PROTOCOL},
    )
    def get(self, request: Request) -> Response:
        """List benchmarks, newest first."""
        return page(filtered(run_list(), request, _FILTERS), request, benchmark_body)

    @call(
        "createBenchmark",
        schema.BENCHMARK_OPERATION,
        status=202,
        body=schema.BENCHMARK_NEW,
        dry_run=schema.BENCHMARK_PLAN,
        example={"model": "resnet50", "version": 3, "protocol": "grpc", "concurrency": [1, 2, 4]},
    )
    def post(self, request: Request) -> Response:
        """Measure a version where it runs, at rising concurrency."""
        body, actor = body_of(request), actor_of(request)
        version = version_get(name=body["model"], number=body["version"])
        plan = benchmark_plan(values=body)

        def asked() -> tuple[BenchmarkRun, Job]:
            return benchmark_request(
                version=version,
                protocol=body.get("protocol") or BenchmarkProtocol.GRPC,
                plan=plan,
                actor=actor,
                inputs=body.get("inputs"),
                runtime=runtime_get(name=body["runtime"]) if body.get("runtime") else None,
            )

        if validate_only(request):
            return tried(lambda: _plan_body(asked()[0], plan))
        run, job = asked()
        return operation_response(job, extra={"benchmark": run.id})


class BenchmarkDetail(ApiView):
    @call("getBenchmark", schema.BENCHMARK, tagged=True)
    def get(self, request: Request, run_id: str) -> Response:
        """Read a benchmark: what was measured so far, or in all."""
        run = run_get(run_id=run_id)
        return tagged(_tag(run), benchmark_body(run))


class BenchmarkCancel(ApiView):
    write_action = Action.BENCHMARK

    @call(
        "cancelBenchmark",
        schema.BENCHMARK,
        body=NO_FIELDS,
        if_match=IfMatch.TAKEN,
        tagged=True,
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Cancel a benchmark. What was measured so far is kept."""
        run = run_get(run_id=run_id)
        check_if_match(request, _tag(run))
        job_cancel(job=job_get(job_id=run.job_id), actor=actor_of(request))
        run = run_get(run_id=run_id)
        return tagged(_tag(run), benchmark_body(run))


def _tag(run: BenchmarkRun) -> dict[str, Any]:
    """What a cancellation is about: the state, not each figure that comes in."""
    return {"benchmark": run.id, "state": str(run.state)}


def _plan_body(run: BenchmarkRun, plan: LoadPlan) -> dict[str, Any]:
    return {
        "runtime": run.runtime.name if run.runtime else None,
        "protocol": run.protocol,
        "concurrency": run.concurrency,
        "longest_seconds": plan.longest_seconds,
    }
