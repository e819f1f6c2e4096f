"""Whatever happens to the worker, a version being checked comes to a proper end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from tests import onnx_models
from tests.publishing import Publishing, checks_by_name, onnx_bytes
from tests.webapp.catalog.endless import endless_model
from webapp.accounts.models import User
from webapp.catalog import repository_writer
from webapp.catalog.models import ModelVersion
from webapp.catalog.services import catalog_sweep, version_inspect
from webapp.jobs.models import Job
from webapp.jobs.services import job_cancel, job_claim, jobs_reap
from workers.base import run_job

_WORKER = """
import sys
from pathlib import Path
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from tests.publishing import point_settings_at
point_settings_at(settings, Path(sys.argv[2]))
from webapp.catalog.services import version_inspect
from workers.base import run_job
run_job(sys.argv[3], lambda claim: version_inspect(claim=claim))
"""


@pytest.mark.timeout(300)
def test_a_killed_worker_is_replaced_once_and_then_the_version_is_rejected(
    publishing: Publishing,
) -> None:
    operation = publishing.send("m", endless_model()).json()
    for attempt in (1, 2):
        with _worker(publishing.home, operation["id"]) as worker:
            _until(partial(_checks_in_child, worker.pid), "the smoke check to run")
            (child,) = _children(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)
        _until(partial(_gone, child), "the sandbox to die with its worker")
        assert ModelVersion.objects.get().state == "VALIDATING"
        Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert jobs_reap() == 1
        assert Job.objects.get().attempt == attempt

    version = ModelVersion.objects.get()
    assert version.state == "REJECTED"
    assert version.metadata["rejected_because"] == "WORKER_LOST"
    failed = next(row for row in version.checks if row["status"] == "failed")
    assert "died 2 times" in failed["detail"]
    assert checks_by_name(version)["load"]["status"] == "passed"
    assert len(version.checks) == 17
    assert publishing.bytes_kept() == 0
    assert publishing.published() == []


def test_the_second_attempt_finishes_what_the_first_began(publishing: Publishing) -> None:
    operation = publishing.send("m", onnx_bytes(onnx_models.mlp())).json()
    claim = job_claim(job_id=operation["id"], worker="dead")
    assert claim is not None
    # Where a first attempt may have died: files in quarantine, a version folder not committed.
    version = ModelVersion.objects.get()
    leftover = publishing.home / "quarantine" / f"{version.pk}-{claim.token}" / "content"
    leftover.mkdir(parents=True)
    (leftover / "half").write_bytes(b"x" * 1000)
    half = repository_writer.version_folder(model_name="m", number=1)
    half.mkdir(parents=True)
    (half / "model.onnx").write_bytes(b"half")
    ModelVersion.objects.update(state="VALIDATING")
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    jobs_reap()

    version = publishing.check(operation)
    assert version.state == "READY", version.checks
    assert publishing.published() == ["m/1/model.onnx"]
    assert (half / "model.onnx").read_bytes() == onnx_bytes(onnx_models.mlp())
    assert publishing.bytes_kept() == 0


def test_cancelling_stops_the_check_and_rejects(publishing: Publishing) -> None:
    operation = publishing.send("m", endless_model()).json()
    work = threading.Thread(target=_run_here, args=(operation["id"],))
    work.start()
    try:
        _until(lambda: _running("smoke"), "the smoke check to run")
        job_cancel(job=Job.objects.get(), actor=User.objects.get(username="olga"))
    finally:
        work.join(timeout=30)
    assert not work.is_alive()

    version = ModelVersion.objects.get()
    assert version.state == "REJECTED"
    assert version.metadata["rejected_because"] == "CANCELLED"
    assert Job.objects.get().state == "CANCELLED"
    assert publishing.bytes_kept() == 0


def test_cancelling_before_it_starts_rejects_too(publishing: Publishing) -> None:
    publishing.send("m", endless_model())
    job_cancel(job=Job.objects.get(), actor=User.objects.get(username="olga"))

    assert ModelVersion.objects.get().state == "REJECTED"
    assert publishing.bytes_kept() == 0


def test_an_attempt_given_up_for_dead_publishes_nothing(
    publishing: Publishing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is lost just before it would publish."""
    operation = publishing.send("m", onnx_bytes(onnx_models.mlp())).json()
    stage = repository_writer.version_stage

    def lose_lease_and_stage(**arguments):
        Job.objects.update(fencing_token=99)
        return stage(**arguments)

    monkeypatch.setattr(repository_writer, "version_stage", lose_lease_and_stage)
    run_job(operation["id"], lambda claim: version_inspect(claim=claim))

    assert ModelVersion.objects.get().state == "VALIDATING"
    assert publishing.published() == []
    assert not any((publishing.home / "staging").iterdir())


def test_the_sweep_removes_leftovers_and_nothing_else(publishing: Publishing) -> None:
    ready = publishing.upload("m", onnx_bytes(onnx_models.mlp()))
    publishing.upload("m", b"nonsense")
    publishing.send("m", onnx_bytes(onnx_models.mlp()))
    stray = repository_writer.version_folder(model_name="m", number=2)
    stray.mkdir()
    (stray / "model.onnx").write_bytes(b"x")
    orphan = publishing.home / "quarantine" / "9999-1"
    orphan.mkdir()
    old = publishing.home / "staging" / "m--7--1"
    old.mkdir()
    os.utime(old, (0, 0))

    assert catalog_sweep() == 3
    assert not stray.exists()
    assert not orphan.exists()
    assert not old.exists()
    assert publishing.published() == [f"m/{ready.number}/model.onnx"]
    assert publishing.check(_last_operation()).state == "READY"


def test_checks_fill_in_while_they_run(publishing: Publishing) -> None:
    operation = publishing.send("m", endless_model()).json()
    work = threading.Thread(target=_run_here, args=(operation["id"],))
    work.start()
    try:
        _until(lambda: _running("smoke"), "the smoke check to run")
        api = publishing.world.api_client("viewer")
        seen = api.get("/api/v1/models/m/versions/1").json()
        progress = api.get(f"/api/v1/operations/{operation['id']}").json()
    finally:
        job_cancel(job=Job.objects.get(), actor=None)
        work.join(timeout=30)

    assert seen["state"] == "VALIDATING"
    assert [row["status"] for row in seen["checks"]][:3] == ["passed"] * 3
    assert progress["state"] == "RUNNING"
    assert 0 < progress["progress"] < 1
    assert "Smoke" in progress["phase"]


def _run_here(job_id: str) -> None:
    try:
        run_job(job_id, lambda claim: version_inspect(claim=claim), heartbeat_seconds=0.2)
    finally:
        connection.close()


@contextmanager
def _worker(home: Path, job_id: str) -> Iterator["subprocess.Popen[bytes]"]:
    database = connection.settings_dict["NAME"]
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(database), str(home), job_id],
        cwd=Path(__file__).parent.parent.parent.parent,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait(timeout=10)


def _running(check: str) -> bool:
    return bool(ModelVersion.objects.get().metadata.get("checking") == check)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def _checks_in_child(worker: int) -> bool:
    return bool(_children(worker)) and _running("smoke")


def _gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def _last_operation() -> dict[str, str]:
    job = Job.objects.order_by("-created_at").first()
    assert job is not None
    return {"id": job.id, "target": job.target}


def _until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
