from django.apps import AppConfig


class BenchmarksConfig(AppConfig):
    name = "webapp.benchmarks"
    label = "benchmarks"

    def ready(self) -> None:
        from webapp.benchmarks.report import snapshot
        from webapp.benchmarks.services import benchmark_settle_lost
        from webapp.core.snapshots import register
        from webapp.jobs.choices import JobKind
        from webapp.jobs.hooks import on_lost

        on_lost(JobKind.RUN_BENCHMARK)(lambda job: benchmark_settle_lost(job=job))
        register("benchmark", snapshot)
