"""Long work as scripts see it: operations."""

import pytest

from tests.world import World, assert_problem, claim_of
from webapp.jobs.choices import JobKind
from webapp.jobs.models import Job
from webapp.jobs.services import job_fail, job_heartbeat, job_request, job_succeed

pytestmark = pytest.mark.django_db


def ask(kind: JobKind = JobKind.INSPECT_VERSION) -> Job:
    return job_request(kind=kind, subject_id="1", target="models/m/versions/1", actor=None)


def test_an_operation_has_the_promised_shape(world: World):
    job = ask()
    body = world.api_client("viewer").get(f"/api/v1/operations/{job.id}").json()
    promised = {"id", "kind", "state", "progress", "phase", "target", "result", "error"}
    assert promised <= set(body)
    assert body["state"] == "PENDING"
    assert body["target"] == "models/m/versions/1"


def test_progress_and_results_are_seen(world: World):
    client = world.api_client("viewer")
    job = ask()
    claim = claim_of(job)
    job_heartbeat(claim=claim, progress=0.5, phase="reading")
    seen = client.get(f"/api/v1/operations/{job.id}").json()
    assert (seen["state"], seen["progress"], seen["phase"]) == ("RUNNING", 0.5, "reading")
    job_succeed(claim=claim, result={"version": 1})
    assert client.get(f"/api/v1/operations/{job.id}").json()["result"] == {"version": 1}


def test_a_failure_carries_reason_and_fix(world: World):
    job = ask()
    claim = claim_of(job)
    job_fail(claim=claim, reason="BAD", detail="no", fix="do better")
    body = world.api_client("viewer").get(f"/api/v1/operations/{job.id}").json()
    assert body["error"] == {"reason": "BAD", "detail": "no", "fix": "do better"}


def test_lists_are_filtered_and_paged_without_loss(world: World):
    made = [ask().id for _ in range(5)] + [ask(JobKind.RUN_BENCHMARK).id]
    client = world.api_client("viewer")
    seen: list[str] = []
    token = ""
    while True:
        body = client.get(f"/api/v1/operations?page_size=2&page_token={token}").json()
        seen += [item["id"] for item in body["items"]]
        token = body["next_page_token"]
        if not token:
            break
    assert seen == list(reversed(made))
    only = client.get("/api/v1/operations?kind=run_benchmark").json()["items"]
    assert [item["id"] for item in only] == made[-1:]
    both = client.get("/api/v1/operations?filter=kind!=run_benchmark AND state=PENDING").json()
    assert len(both["items"]) == 5


def test_waiting_answers_at_once_when_the_operation_has_ended(world: World):
    job = ask()
    job_succeed(claim=claim_of(job))
    body = world.api_client("viewer").get(f"/api/v1/operations/{job.id}:wait?timeout=30").json()
    assert body["state"] == "SUCCEEDED"


def test_waiting_ends_with_what_is_known(world: World):
    job = ask()
    body = world.api_client("viewer").get(f"/api/v1/operations/{job.id}:wait?timeout=0.1").json()
    assert body["state"] == "PENDING"
    bad = world.api_client("viewer").get(f"/api/v1/operations/{job.id}:wait?timeout=soon")
    assert_problem(bad, 400, "BAD_PARAMETER")


def test_cancelling_needs_an_operator(world: World):
    job = ask()
    refused = world.api_client("viewer").post(f"/api/v1/operations/{job.id}:cancel")
    assert_problem(refused, 403, "ROLE_REQUIRED")
    done = world.api_client("operator").post(f"/api/v1/operations/{job.id}:cancel")
    assert done.json()["state"] == "CANCELLED"
    again = world.api_client("operator").post(f"/api/v1/operations/{job.id}:cancel")
    assert_problem(again, 409, "OPERATION_ENDED")


def test_an_unknown_operation_is_a_404(world: World):
    answer = world.api_client("viewer").get("/api/v1/operations/op_nothing")
    assert_problem(answer, 404, "OPERATION_NOT_FOUND")


def test_the_page_follows_a_job_and_cancels_it(world: World):
    job = ask()
    client = world.client("operator")
    page = client.get(f"/jobs/{job.id}/").content.decode()
    assert f'data-live-topic="job:{job.id}"' in page
    assert "Cancel this job" in page
    assert client.post(f"/jobs/{job.id}:cancel").status_code == 302
    assert "Cancelled before it started." in client.get(f"/jobs/{job.id}/").content.decode()
    listed = client.get("/jobs/?state=CANCELLED").content.decode()
    assert job.id in listed
    viewer = world.client("viewer").get(f"/jobs/{ask().id}/").content.decode()
    assert "Only the role operator or above may cancel jobs." in viewer
