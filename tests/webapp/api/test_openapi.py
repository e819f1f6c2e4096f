"""The API's description: valid, complete, without warnings, and with the shapes scripts rely on."""

import re
from pathlib import Path

import pytest
from drf_spectacular.drainage import GENERATOR_STATS, reset_generator_stats
from drf_spectacular.generators import SchemaGenerator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.webapp.api.described import Description
from tests.world import World

# The names of docs/design's shapes, as the description has them.
SHAPES = {
    "Operation": "id kind state progress phase target result error",
    "Version": "model version state checks inputs outputs files variants",
    "Check": "name status detail fix",
    "Tensor": "name datatype shape",
    "File": "name size_bytes sha256",
    "Rollout": "id model stable canary state pause_reason step steps verdict evidence reason",
    "RolloutArm": "version variant",
    "RolloutStep": "weight hold_seconds min_requests",
    "Traffic": "model generation arms",
    "TrafficArm": "version variant role configured applied observed",
    "Benchmark": "id state model version protocol points saturation",
    "BenchmarkPoint": "concurrency throughput latency_ms queue_ms compute_ms batch_size stable",
}


def test_the_description_is_valid_openapi(description: Description) -> None:
    assert description.schema["openapi"].startswith("3.1")
    faults = OpenAPIV31SpecValidator(description.schema).iter_errors()
    assert [str(fault)[:300] for fault in faults] == []


def test_it_is_generated_without_a_warning() -> None:
    reset_generator_stats()
    SchemaGenerator().get_schema(request=None, public=True)
    assert not GENERATOR_STATS, "see the printed warnings"


def test_every_call_says_what_it_takes_and_gives(description: Description) -> None:
    names = [operation.name for operation in description.operations]
    assert len(names) == len(set(names))
    for operation in description.operations:
        what = operation.what
        assert re.fullmatch(r"[a-z]+[A-Za-z]*", operation.name)
        assert what["summary"], operation.name
        assert len(what["tags"]) == 1
        assert what["security"], operation.name
        answers = what["responses"]
        good = [answer for status, answer in answers.items() if status in {"200", "201", "202"}]
        for answer in good:
            ((_, content),) = answer["content"].items()
            assert content["schema"], operation.name
        assert good or "204" in answers
        problems = [answer for status, answer in answers.items() if status >= "400"]
        for problem in problems:
            assert list(problem["content"]) == ["application/problem+json"]
        for status in ("400", "401", "403", "default"):
            assert status in answers, operation.name
        if operation.body is not None:
            assert operation.body != {"type": "object"}


def test_headers_are_described_where_they_count(description: Description) -> None:
    for operation in description.operations:
        headers, answers = operation.parameters("header"), operation.what["responses"]
        assert ("Idempotency-Key" in headers) == (operation.method == "POST"), operation.name
        assert ("412" in answers) >= ("If-Match" in headers), operation.name
        assert ("428" in answers) == (
            "If-Match" in headers and operation.method in {"PUT", "PATCH", "DELETE"}
        ), operation.name
        if "202" in answers:
            assert "Operation-Location" in answers["202"]["headers"], operation.name
        if operation.name.startswith("list"):
            assert {"page_size", "page_token"} <= operation.parameters("query").keys()


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_that_scripts_rely_on_are_described(description: Description, name: str) -> None:
    shape = description.schema["components"]["schemas"][name]
    assert set(SHAPES[name].split()) <= set(shape["required"])


def test_examples_have_the_shape_they_illustrate(description: Description) -> None:
    shown = 0
    for operation in description.operations:
        for content in operation.what.get("requestBody", {}).get("content", {}).values():
            if "example" in content:
                assert description.errors(content["schema"], content["example"]) == []
                shown += 1
    assert shown > 15


def test_the_page_for_api_users_names_only_calls_that_are_there(description: Description) -> None:
    text = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    named = re.findall(r"\$API/([\w/:.-]+)", text) + re.findall(r"(?<=post )[\w/:]+", text)
    known = [re.sub(r"\{\w+\}", r"[^/:]+", each.path) for each in description.operations]
    assert len(named) > 8
    for path in named:
        assert any(re.fullmatch(one, f"/api/v1/{path}") for one in known), path
    for verb, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?]+)", text):
        found = {each.path for each in description.operations if each.method == verb}
        pattern = re.sub(r"\{\w+\}", "{}", f"/api/v1{path}")
        assert pattern in {re.sub(r"\{\w+\}", "{}", each) for each in found}, path


@pytest.mark.django_db
def test_it_is_served_and_the_page_for_reading_needs_nothing_from_elsewhere(world: World) -> None:
    client = world.client("viewer")
    served = client.get("/api/schema/?format=json")
    assert served.status_code == 200
    assert "startRollout" in served.content.decode()
    page = client.get("/api/docs/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "Start a rollout" in text
    assert "Idempotency-Key" in text
    assert "allow_contract_change" in text
    abort = text.split("/api/v1/uploads/{upload_id}&quot;")[0]
    assert "--data-binary @part" in text
    assert abort.rsplit("curl", 1)[1].count("If-Match") == 0, "refused there"
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", text)
    assert (
        "'unsafe-inline'"
        not in page["Content-Security-Policy"].split("script-src")[1].split(";")[0]
    )
