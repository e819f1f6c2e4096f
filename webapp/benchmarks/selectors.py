"""Reads of benchmark runs."""

from django.db.models import QuerySet

from webapp.benchmarks.models import BenchmarkPoint, BenchmarkRun
from webapp.benchmarks.statistics import saturation
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.core.errors import NotFound
from webapp.serving.choices import DeploymentState


def run_list(*, model: InferenceModel | None = None) -> QuerySet[BenchmarkRun]:
    runs = BenchmarkRun.objects.select_related("version__model", "runtime", "requested_by")
    return runs.filter(version__model=model) if model is not None else runs


def run_get(*, run_id: str) -> BenchmarkRun:
    run = run_list().filter(id=run_id).first()
    if run is None:
        raise NotFound(f"There is no benchmark {run_id}.", reason="BENCHMARK_NOT_FOUND")
    return run


def point_list(*, run: BenchmarkRun) -> list[BenchmarkPoint]:
    return list(BenchmarkPoint.objects.filter(run=run).order_by("concurrency"))


def saturation_of(*, points: list[BenchmarkPoint]) -> int | None:
    return saturation([(point.concurrency, point.throughput) for point in points])


def benchmark_snapshot(*, run_id: str) -> BenchmarkRun | None:
    return run_list().filter(id=run_id).first()


def versions_in_service() -> QuerySet[ModelVersion]:
    """Versions that a benchmark can be asked for."""
    return (
        ModelVersion.objects.select_related("model")
        .filter(deployments__wanted=True, deployments__state=DeploymentState.AVAILABLE)
        .distinct()
        .order_by("model__name", "-number")
    )


def runs_beside(*, run: BenchmarkRun) -> list[BenchmarkRun]:
    """Earlier runs of the same model that a person may want to lay beside this one."""
    return list(
        run_list(model=run.version.model)
        .exclude(id=run.id)
        .filter(points__isnull=False)
        .distinct()[:20]
    )
