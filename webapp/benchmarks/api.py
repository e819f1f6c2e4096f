"""REST: ask for a benchmark, follow it, list them."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.benchmarks.report import benchmark_body
from webapp.benchmarks.selectors import run_get, run_list
from webapp.benchmarks.services import benchmark_plan, benchmark_request
from webapp.catalog.selectors import version_get
from webapp.core.api import ApiView, body_of, filtered, operation_response, page, validate_only
from webapp.core.errors import InvalidInput
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

    def get(self, request: Request) -> Response:
        return page(filtered(run_list(), request, _FILTERS), request, benchmark_body)

    def post(self, request: Request) -> Response:
        body = body_of(request)
        name, number = _subject(body)
        version = version_get(name=name, number=number)
        plan = benchmark_plan(values=body)
        if validate_only(request):
            return Response({"concurrency": plan.ladder, "longest_seconds": plan.longest_seconds})
        run, job = benchmark_request(
            version=version,
            protocol=body.get("protocol", "grpc"),
            plan=plan,
            actor=actor_of(request),
            inputs=body.get("inputs"),
            runtime=runtime_get(name=body["runtime"]) if body.get("runtime") else None,
        )
        return operation_response(job, extra={"benchmark": run.id})


class BenchmarkDetail(ApiView):
    def get(self, request: Request, run_id: str) -> Response:
        return Response(benchmark_body(run_get(run_id=run_id)))


class BenchmarkCancel(ApiView):
    has_dry_run = False
    write_action = Action.BENCHMARK

    def post(self, request: Request, run_id: str) -> Response:
        run = run_get(run_id=run_id)
        job_cancel(job=job_get(job_id=run.job_id), actor=actor_of(request))
        return Response(benchmark_body(run_get(run_id=run_id)))


def _subject(body: dict[str, Any]) -> tuple[str, int]:
    name, number = body.get("model"), body.get("version")
    if not isinstance(name, str) or isinstance(number, bool) or not isinstance(number, int):
        raise InvalidInput(
            "A benchmark needs a model's name and a version's number.",
            reason="MISSING_FIELD",
            help_text='Send {"model": "resnet50", "version": 3, "protocol": "grpc"}.',
        )
    return name, number
