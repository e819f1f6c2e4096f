"""Bodies are strict: for every call that writes, what cannot be meant is refused and named."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.webapp.api.described import Description, Operation
from tests.webapp.api.paths import filled, snapshot
from tests.world import World, assert_problem
from webapp.catalog.models import InferenceModel

pytestmark = pytest.mark.django_db
WRONG: dict[str, Any] = {
    "string": 5,
    "integer": "5",
    "number": "5",
    "boolean": "true",
    "array": "x",
    "object": "x",
}
JSON = "application/json"


def _taking_json(description: Description) -> list[Operation]:
    found = [each for each in description.operations if each.method in {"POST", "PUT", "PATCH"}]
    return [each for each in found if _media_types(each) in ([JSON], [])]


def _media_types(operation: Operation) -> list[str]:
    return list(operation.what.get("requestBody", {}).get("content", {}))


def _send(world: World, operation: Operation, body: Any, **sent: Any) -> Any:
    call = getattr(world.api_client("admin"), operation.method.lower())
    return call(filled(operation.path), body, **sent)


def _fields(description: Description, operation: Operation) -> dict[str, Any]:
    schema = operation.body or {"properties": {}}
    options = [description.resolved(each) for each in schema.get("anyOf", [schema])]
    return options[0]["properties"]


def test_an_unknown_field_is_named(world: World, description: Description) -> None:
    world.token("admin")
    before = snapshot()
    for operation in _taking_json(description):
        problem = _send(world, operation, {"colour": "red"}).json()
        assert problem["status"] == 400, (operation.name, problem)
        assert "colour" in problem["detail"], operation.name
        assert "/colour" in [error["pointer"] for error in problem["errors"]], operation.name
    assert snapshot() == before


def test_a_value_of_another_type_is_not_coerced(world: World, description: Description) -> None:
    world.token("admin")
    before, tried = snapshot(), 0
    for operation in _taking_json(description):
        for name, schema in _fields(description, operation).items():
            kinds = description.kinds(schema)
            wrong = next(value for kind, value in WRONG.items() if not _fits(value, kinds))
            problem = _send(world, operation, {name: wrong}).json()
            assert problem["status"] == 400, (operation.name, name, problem)
            pointers = [error["pointer"] for error in problem["errors"]]
            assert f"/{name}" in pointers, (operation.name, name, problem)
            tried += 1
    assert tried > 50
    assert snapshot() == before


def _fits(value: Any, kinds: set[str]) -> bool:
    names = {str: {"string"}, int: {"integer", "number"}}
    return bool(names[type(value)] & kinds)


@pytest.mark.parametrize("body", ["[]", '"x"', "5", "true", "null"])
def test_what_is_no_object_is_refused(world: World, description: Description, body: str) -> None:
    for operation in _taking_json(description):
        answer = _send(world, operation, body, content_type=JSON)
        problem = assert_problem(answer, 400, "MALFORMED_BODY")
        assert "object" in problem["detail"], operation.name


@pytest.mark.parametrize("body", ["{", '{"a": NaN}', "{'a': 1}", "\xff", '{"a": 1} x'])
def test_what_is_no_json_is_refused(world: World, description: Description, body: str) -> None:
    for operation in _taking_json(description):
        answer = _send(world, operation, body.encode("latin-1"), content_type=JSON)
        assert_problem(answer, 400, "MALFORMED_BODY")


@pytest.mark.parametrize(
    ("operation", "body", "pointer"),
    [
        ("startRollout", {"version": 2, "steps": [{"weight": "x"}]}, "/steps/0/weight"),
        ("startRollout", {"version": 2, "steps": [0.1, {"share": 1}]}, "/steps/1/share"),
        ("startRollout", {"version": 2, "guardrails": {"latency": 1}}, "/guardrails/latency"),
        ("startRollout", {"version": 2.0}, "/version"),
        (
            "createBenchmark",
            {"model": "m", "version": 1, "concurrency": [1, "2"]},
            "/concurrency/1",
        ),
        (
            "createBenchmark",
            {"model": "m", "version": 1, "inputs": [{"name": "x"}]},
            "/inputs/0/data",
        ),
        ("createBenchmark", {"model": "m"}, "/version"),
        ("setServingConfig", {"settings": {"colour": 1}}, "/settings/colour"),
        ("createPerson", {"username": None}, "/username"),
        ("createPerson", {}, "/username"),
    ],
)
def test_the_pointer_leads_to_the_place(
    world: World, description: Description, operation: str, body: Any, pointer: str
) -> None:
    (found,) = [each for each in description.operations if each.name == operation]
    problem = _send(world, found, body).json()
    assert problem["status"] == 400
    assert pointer in [error["pointer"] for error in problem["errors"]], problem


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"colour": "red"}, "/colour"),
        ({"sha256": SimpleUploadedFile("x", b"x")}, "/sha256"),
        ({"samples": "text"}, "/samples"),
    ],
)
def test_a_form_is_as_strict(world: World, fields: dict[str, Any], pointer: str) -> None:
    form = {"file": SimpleUploadedFile("m.onnx", b"x"), **fields}
    InferenceModel.objects.create(name="resnet50")
    client = world.api_client()
    before = snapshot()
    answer = client.post("/api/v1/models/resnet50/versions", form, format="multipart")
    problem = assert_problem(answer, 400, "VALIDATION_FAILED")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert snapshot() == before


def test_a_query_parameter_nobody_reads_is_refused(world: World, description: Description) -> None:
    for operation in description.operations:
        call = getattr(world.api_client("admin"), operation.method.lower())
        answer = call(f"{filled(operation.path)}?validate_olny=true")
        problem = assert_problem(answer, 400, "UNKNOWN_PARAMETER")
        assert "validate_olny" in problem["detail"]
