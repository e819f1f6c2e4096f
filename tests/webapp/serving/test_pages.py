"""The pages of serving: what they say, who may press what, and what works without JavaScript."""

import re

import pytest

from tests.webapp.serving.steps import deploy, two_versions
from webapp.runtime_client.connections import stand_in
from webapp.runtime_client.fake import FakeRuntime
from webapp.serving.models import Deployment, Runtime, ServingConfig

NEW = {"name": "edge", "http_address": "10.0.0.1:8000", "grpc_address": "10.0.0.1:8001"}
FORM = {
    "dynamic_batching": "on", "max_batch_size": "8", "preferred_batch_sizes": "4, 8",
    "max_queue_delay_microseconds": "", "max_queue_size": "", "default_timeout_microseconds": "",
    "instance_count": "", "revision": "0",
}  # fmt: skip


@pytest.fixture
def olga(yard):
    return yard.world.client("operator")


@pytest.fixture
def ada(yard):
    return yard.world.client("admin")


def text_of(response):
    return " ".join(response.content.decode().split())


def test_the_fleet_shows_health_in_words(yard, olga):
    deploy(yard, yard.publish(1))
    page = text_of(olga.get("/runtimes/"))
    assert "1 of 1 ready" in page
    assert "1 of 1</span>" in page
    yard.fake.down = True
    yard.probe()
    page = text_of(olga.get("/runtimes/"))
    assert "unreachable" in page
    assert "Connection refused" in page


def test_an_operator_is_told_who_may_add_runtimes(yard, olga):
    assert "Only the role admin" in text_of(olga.get("/runtimes/"))
    assert olga.post("/runtimes/", NEW).status_code == 403


def test_a_runtime_is_added_by_form_and_saved_anyway_when_it_does_not_answer(yard, ada):
    fake = FakeRuntime(yard.repository)
    fake.down = True
    stand_in(NEW["grpc_address"], fake)
    page = ada.post("/runtimes/", NEW)
    assert page.status_code == 422
    assert "does not answer" in text_of(page)
    assert "Add it although it does not answer" in text_of(page)
    answer = ada.post("/runtimes/", NEW | {"save_anyway": "1"})
    assert answer.headers["Location"] == "/runtimes/edge/"
    assert "It does not answer" in text_of(ada.get("/runtimes/edge/"))
    stand_in(NEW["grpc_address"], None)


def test_a_wrong_address_is_explained_at_its_field(yard, ada):
    page = text_of(ada.post("/runtimes/", NEW | {"http_address": "http://10.0.0.1:8000"}))
    assert "has a scheme; write host:port" in page


def test_a_runtime_shows_desired_observed_and_why(yard, olga):
    deploy(yard, yard.publish(1))
    deploy(yard, yard.broken(2))
    page = text_of(olga.get("/runtimes/local/"))
    assert "the file cannot be read as a model" in page
    assert "next try" in page
    assert "1 of 2 loaded, 1 not yet as wanted" in page


def test_versions_are_deployed_and_undeployed_from_a_runtimes_page(yard, olga):
    _, second = two_versions(yard)
    answer = olga.post("/runtimes/local/undeploy/echo/2/")
    assert answer.headers["Location"].startswith("/jobs/")
    yard.work()
    assert not Deployment.objects.get(version=second).wanted
    answer = olga.post("/runtimes/local/deploy/", {"version": "echo/2"})
    assert answer.headers["Location"].startswith("/jobs/")
    yard.work()
    assert yard.ready() == [1, 2]
    answer = olga.post("/runtimes/local/undeploy/echo/1/", follow=True)
    assert "of the traffic" in text_of(answer)


def test_foreign_models_are_listed_apart(yard, olga):
    stranger = yard.repository / "stranger" / "1"
    stranger.mkdir(parents=True)
    (stranger / "model.onnx").write_bytes(b"fine")
    yard.fake.load("stranger")
    yard.probe()
    page = text_of(olga.get("/runtimes/local/"))
    assert "Also there" in page
    assert "stranger" in page


def test_a_runtime_with_deployments_cannot_be_removed_by_button(yard, ada):
    runtime, _ = yard.attach("edge")
    deploy(yard, yard.publish(1), runtime=runtime)
    assert "undeploy first" in text_of(ada.get("/runtimes/edge/"))
    assert "still has 1 deployment" in text_of(ada.post("/runtimes/edge/forget/", follow=True))
    assert Runtime.objects.filter(name="edge").exists()


def test_the_config_page_previews_saves_and_shows_what_is_in_force(yard, olga):
    deploy(yard, yard.publish(1))
    page = text_of(olga.get("/models/echo/serving/"))
    assert "The same as the config in force." in page
    assert not re.search("<(ins|del)>", page)
    assert "Save and reload echo on local" in page
    preview = text_of(olga.post("/models/echo/serving/preview/", FORM))
    assert "max_batch_size: 8</ins>" in preview
    assert "max_batch_size: 4</del>" in preview
    answer = olga.post("/models/echo/serving/", FORM)
    assert answer.headers["Location"].startswith("/jobs/")
    yard.work()
    page = text_of(olga.get("/models/echo/serving/"))
    assert "Revision 1 is in force." in page
    assert "The same as the config in force." in page
    assert 'value="4, 8"' in page


def test_a_problem_is_shown_at_its_field_and_in_the_preview(yard, olga):
    deploy(yard, yard.publish(1))
    wrong = FORM | {"preferred_batch_sizes": "16"}
    preview = text_of(olga.post("/models/echo/serving/preview/", wrong))
    assert "Preferred batch sizes: 16 is more than the largest batch, 8" in preview
    page = olga.post("/models/echo/serving/", wrong)
    assert page.status_code == 422
    assert "16 is more than the largest batch, 8" in text_of(page)
    words = text_of(olga.post("/models/echo/serving/preview/", FORM | {"max_queue_size": "many"}))
    assert "Max queue size: Enter a whole number." in words


def test_two_people_at_once_are_told_of_each_other(yard, olga, ada):
    deploy(yard, yard.publish(1))
    ada.post("/models/echo/serving/", FORM)
    yard.work()
    page = olga.post("/models/echo/serving/", FORM | {"max_batch_size": "16"})
    assert page.status_code == 412
    assert "Somebody saved other settings" in text_of(page)
    assert 'name="revision" value="1"' in text_of(page)
    assert ServingConfig.objects.get().max_batch_size == 8


def test_a_refused_config_is_told_on_the_page(yard, olga):
    deploy(yard, yard.publish(1))
    yard.fake.refuse_load["echo"] = "not enough memory"
    olga.post("/models/echo/serving/", FORM)
    yard.work()
    page = text_of(olga.get("/models/echo/serving/"))
    assert "the ones before are in force" in page
    assert "not enough memory" in page


def test_without_versions_the_page_says_what_comes_first(yard, olga):
    assert "Nothing to configure yet" in text_of(olga.get("/models/echo/serving/"))


def test_a_viewer_sees_everything_and_is_told_why_not(yard):
    deploy(yard, yard.publish(1))
    vic = yard.world.client("viewer")
    assert "Only the role operator" in text_of(vic.get("/models/echo/serving/"))
    assert vic.post("/models/echo/serving/", FORM).status_code == 403
    assert not ServingConfig.objects.exists()
    assert vic.post("/runtimes/local/reconcile/").status_code == 403
    assert vic.get("/runtimes/local/").status_code == 200


def test_a_stranger_is_sent_to_the_login(yard):
    stranger = yard.world.client(None)
    for url in ("/runtimes/", "/runtimes/local/", "/models/echo/serving/"):
        assert "/login" in stranger.get(url).headers["Location"]
