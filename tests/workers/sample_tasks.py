"""Job kinds carried out by work that a test can steer through the job's parameters."""

import time
from pathlib import Path
from typing import Any

from webapp.jobs.claims import Claim
from webapp.jobs.services import job_heartbeat
from workers.base import run_job
from workers.celery_app import app


@app.task(name="inspect_version")
def inspect_version(job_id: str) -> None:
    run_job(job_id, _work, heartbeat_seconds=0.5)


@app.task(name="run_benchmark")
def run_benchmark(job_id: str) -> None:
    run_job(job_id, _work, heartbeat_seconds=0.5)


def _work(claim: Claim) -> dict[str, Any]:
    """Waits until the file named in `gate` exists; ends at once without one."""
    gate = claim.job.parameters.get("gate")
    steps = 0
    while gate and not Path(gate).exists():
        claim.check()
        steps += 1
        job_heartbeat(claim=claim, progress=0.5, phase="waiting at the gate")
        time.sleep(0.05)
    return {"steps": steps, "attempt": claim.job.attempt}
