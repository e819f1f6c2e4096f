"""Wake-up for benchmark runs."""

from webapp.benchmarks.services import benchmark_execute
from workers.base import run_job
from workers.celery_app import app


@app.task(name="run_benchmark")
def run_benchmark(job_id: str) -> None:
    run_job(job_id, lambda claim: benchmark_execute(claim=claim))
