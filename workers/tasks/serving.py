"""Wake-ups for loading, unloading, reconciling, and for traffic tables that did not get through."""

from webapp.serving import services
from workers.base import run_job
from workers.celery_app import app


@app.task(name="deploy_version")
def deploy_version(job_id: str) -> None:
    run_job(job_id, lambda claim: services.deployment_run(claim=claim))


@app.task(name="undeploy_version")
def undeploy_version(job_id: str) -> None:
    run_job(job_id, lambda claim: services.undeployment_run(claim=claim))


@app.task(name="apply_serving_config")
def apply_serving_config(job_id: str) -> None:
    run_job(job_id, lambda claim: services.serving_config_run(claim=claim))


@app.task(name="reconcile_runtime")
def reconcile_runtime(job_id: str) -> None:
    run_job(job_id, lambda claim: services.reconcile_run(claim=claim))


@app.task(name="probe_runtimes")
def probe_runtimes() -> None:
    services.runtimes_probe()


@app.task(name="push_traffic")
def push_traffic(model_id: int) -> None:
    services.traffic_catch_up(model_id=model_id)
