"""The upload page without JavaScript, and the fragments it shares with a version's page."""

from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from tests import onnx_models
from tests.publishing import Publishing, onnx_bytes
from tests.webapp.uploads.parts import send_all, start
from webapp.catalog.models import ModelVersion
from webapp.jobs.models import Job
from webapp.uploads.models import Upload

MODEL = onnx_bytes(onnx_models.mlp())


def test_the_page_names_every_check_and_suggests_models(publishing: Publishing) -> None:
    publishing.world.api_client().post("/api/v1/models", {"name": "resnet50"})
    page = publishing.world.client().get("/upload/?model=resnet50").content.decode()

    assert '<option value="resnet50">' in page
    assert 'value="resnet50" list="model-names"' in page
    for title in ("Archive", "No pickle", "Opset", "Smoke inference"):
        assert title in page
    assert "<script>" not in page
    assert "onclick" not in page


def test_a_viewer_is_told_which_role_uploads(publishing: Publishing) -> None:
    page = publishing.world.client("viewer").get("/upload/")
    assert page.status_code == 403
    assert "operator" in page.content.decode()
    stranger = publishing.world.client(None).get("/upload/")
    assert stranger.status_code == 302


def test_the_plain_form_makes_a_version_and_a_model(publishing: Publishing) -> None:
    browser = publishing.world.client()
    answer = browser.post(
        "/upload/",
        {
            "model": "fresh",
            "file": SimpleUploadedFile("net.onnx", MODEL),
            "config": SimpleUploadedFile("config.pbtxt", b"max_batch_size: 8\n"),
            "note": "by hand",
        },
    )
    assert answer.status_code == 302
    assert answer["Location"] == "/models/fresh/versions/1/"
    job = Job.objects.get()
    version = publishing.check({"id": job.id, "target": job.target})
    assert version.state == "READY", version.checks
    assert (version.note, version.config_text) == ("by hand", "max_batch_size: 8\n")


def test_what_the_plain_form_gets_wrong_is_shown_with_the_fix(publishing: Publishing) -> None:
    browser = publishing.world.client()
    answer = browser.post(
        "/upload/", {"model": "a--b", "file": SimpleUploadedFile("net.onnx", MODEL), "note": "keep"}
    )
    assert answer.status_code == 400
    page = answer.content.decode()
    assert "is reserved" in page
    assert 'value="a--b"' in page
    assert 'value="keep"' in page
    assert "There is no file" in browser.post("/upload/", {"model": "m"}).content.decode()
    assert not ModelVersion.objects.exists()
    assert publishing.bytes_kept() == 0


def test_unfinished_uploads_can_be_discarded_or_finished(publishing: Publishing) -> None:
    api, browser = publishing.world.api_client(), publishing.world.client()
    half, whole = start(api, b"x" * 10, "half"), start(api, MODEL[: 256 * 1024], "whole")
    send_all(api, whole, MODEL[: 256 * 1024])
    page = browser.get("/upload/").content.decode()
    assert "Choose file to continue" in page
    assert "Check it now" in page

    browser.post(reverse("catalog:discard", args=[half["id"]]))
    assert Upload.objects.get(id=half["id"]).state == "ABORTED"
    answer = browser.post(reverse("catalog:finish", args=[whole["id"]]))
    assert answer["Location"] == "/models/whole/versions/1/"
    assert "Unfinished" not in browser.get("/upload/").content.decode()


def test_the_list_of_checks_ends_its_own_polling(publishing: Publishing) -> None:
    browser = publishing.world.client("viewer")
    url = "/models/m/versions/1/checks/"
    operation = publishing.send("m", b"nonsense").json()
    waiting = browser.get(url)
    assert waiting.status_code == 200
    assert "Waiting for a worker" in waiting.content.decode()

    publishing.check(operation)
    done = browser.get(url + "?outcome=1")
    assert done.status_code == 286
    page = done.content.decode()
    assert 'data-outcome="rejected"' in page
    assert "not a whole ONNX model" in page
    assert "Not reached" in page
    assert "Upload a corrected file" in page


def test_a_ready_version_says_what_comes_next(publishing: Publishing) -> None:
    publishing.upload("m", MODEL)
    page = publishing.world.client().get("/models/m/versions/1/checks/?outcome=1").content.decode()

    assert 'data-outcome="ready"' in page
    assert "/models/m/versions/1/" in page
    assert "passed" in page
