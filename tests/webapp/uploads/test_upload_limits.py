"""What is refused before a byte is sent, and what is given back."""

import hashlib
from datetime import timedelta

import pytest

from tests.publishing import Publishing
from tests.webapp.uploads.parts import PART, send, send_all, start
from tests.world import assert_problem
from webapp.uploads.models import Upload
from webapp.uploads.services import uploads_sweep


def test_a_20_gb_claim_is_refused_at_once(publishing: Publishing) -> None:
    api = publishing.world.api_client()
    response = api.post(
        "/api/v1/uploads", {"model": "m", "filename": "m.onnx", "size_bytes": 20_000_000_000}
    )
    problem = assert_problem(response, 413, "UPLOAD_TOO_LARGE")
    assert "18.6 GiB is over the limit of 10.0 GiB" in problem["detail"]
    assert "SWITCHYARD_MAX_UPLOAD_BYTES" in problem["help"]
    assert not Upload.objects.exists()
    assert publishing.bytes_kept() == 0


def test_what_does_not_fit_the_disk_is_refused(publishing: Publishing, monkeypatch) -> None:
    monkeypatch.setattr("webapp.uploads.chunk_store.free_bytes", lambda: 3 * 1024**3)
    api = publishing.world.api_client()
    body = {"model": "m", "filename": "m.onnx", "size_bytes": 1024**3 + 1024**2}
    assert api.post("/api/v1/uploads", body).status_code == 201
    second = api.post("/api/v1/uploads", body)

    problem = assert_problem(second, 413, "DISK_FULL")
    assert "reserved" in problem["detail"]


def test_open_uploads_of_one_person_are_limited(publishing: Publishing, settings) -> None:
    settings.MAX_OPEN_UPLOADS = 2
    api = publishing.world.api_client()
    first = start(api, b"x" * 10)
    start(api, b"x" * 10)
    third = api.post("/api/v1/uploads", {"model": "m", "filename": "f", "size_bytes": 1})
    assert_problem(third, 429, "TOO_MANY_OPEN_UPLOADS")

    assert api.delete(f"/api/v1/uploads/{first['id']}").status_code == 204
    start(api, b"x")
    start(publishing.world.api_client("admin"), b"x")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size_bytes": 0}, "EMPTY_FILE"),
        ({"size_bytes": -5}, "EMPTY_FILE"),
        ({"size_bytes": "10"}, "VALIDATION_FAILED"),
        ({"size_bytes": True}, "VALIDATION_FAILED"),
        ({"model": "../x"}, "BAD_NAME"),
        ({"model": "a--b"}, "BAD_NAME"),
        ({"model": ""}, "BAD_NAME"),
        ({"model": "x\n"}, "BAD_NAME"),
        ({"sha256": "xyz"}, "BAD_DIGEST"),
        ({"part_size": 5}, "BAD_PART_SIZE"),
        ({"part_size": 10**9}, "BAD_PART_SIZE"),
    ],
)
def test_a_start_that_cannot_be_meant_is_refused(
    publishing: Publishing, change: dict[str, object], reason: str
) -> None:
    body = {"model": "m", "filename": "m.onnx", "size_bytes": 10, **change}
    assert_problem(publishing.world.api_client().post("/api/v1/uploads", body), 400, reason)


def test_aborting_gives_the_disk_back(publishing: Publishing) -> None:
    api = publishing.world.api_client()
    content = b"x" * (PART + 10)
    upload = start(api, content)
    send_all(api, upload, content)
    assert publishing.bytes_kept() >= len(content)

    assert api.delete(f"/api/v1/uploads/{upload['id']}").status_code == 204
    assert publishing.bytes_kept() == 0
    assert api.delete(f"/api/v1/uploads/{upload['id']}").status_code == 204
    assert_problem(send(api, upload, 1, content[:PART]), 409, "UPLOAD_NOT_OPEN")
    assert_problem(api.post(f"/api/v1/uploads/{upload['id']}:complete", {}), 409, "UPLOAD_NOT_OPEN")


def test_abandoned_uploads_are_swept(publishing: Publishing, clock) -> None:
    api = publishing.world.api_client()
    upload = start(api, b"x" * 10)
    clock.advance(timedelta(hours=23).total_seconds())
    assert send(api, upload, 1, b"x" * 10).status_code == 200
    clock.advance(timedelta(hours=23).total_seconds())
    assert uploads_sweep() == 0  # the part gave it another day

    clock.advance(timedelta(hours=2).total_seconds())
    assert uploads_sweep() == 1
    assert api.get(f"/api/v1/uploads/{upload['id']}").json()["state"] == "EXPIRED"
    assert publishing.bytes_kept() == 0


def test_somebody_elses_upload_is_not_there(publishing: Publishing) -> None:
    upload = start(publishing.world.api_client("operator"), b"x" * 10)

    assert_problem(
        publishing.world.api_client("viewer").get(f"/api/v1/uploads/{upload['id']}"),
        404,
        "UPLOAD_NOT_FOUND",
    )
    assert publishing.world.api_client("admin").get(f"/api/v1/uploads/{upload['id']}").json()


def test_a_viewer_may_not_upload(publishing: Publishing) -> None:
    viewer = publishing.world.api_client("viewer")
    body = {"model": "m", "filename": "m.onnx", "size_bytes": 10}
    assert_problem(viewer.post("/api/v1/uploads", body), 403, "ROLE_REQUIRED")


def test_unfinished_uploads_are_listed(publishing: Publishing) -> None:
    api = publishing.world.api_client()
    first, second = start(api, b"x" * 10), start(api, b"y" * 10)
    send(api, second, 1, b"y" * 10, **{"X-Part-SHA256": hashlib.sha256(b"y" * 10).hexdigest()})
    listed = api.get("/api/v1/uploads?state=UPLOADING").json()["items"]

    assert [row["id"] for row in listed] == [second["id"], first["id"]]
    assert listed[0]["received_bytes"] == 10
