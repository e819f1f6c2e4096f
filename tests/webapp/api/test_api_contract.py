"""A walk through every call of the API: each answer is the described one, in status, headers, body."""

import hashlib
from typing import Any

from tests import onnx_models
from tests.publishing import named_file, onnx_bytes
from tests.webapp.api.described import DescribedClient, Description
from tests.webapp.rollouts.yard import QUICK, Yard
from webapp.benchmarks.models import BenchmarkPoint
from webapp.catalog.services import version_inspect
from webapp.runtime_client.connections import stand_in
from webapp.runtime_client.fake import FakeRuntime
from webapp.telemetry.services import mark_event
from workers.base import run_job

DRY = "?validate_only=true"
PART = 256 * 1024
RAW = "application/octet-stream"
CONTENT = onnx_bytes(onnx_models.mlp())
EDGE = {"name": "edge-2", "http_address": "edge-2:8000", "grpc_address": "edge-2:8001"}


def test_every_call_answers_as_it_is_described(station: Yard, description: Description) -> None:
    call = DescribedClient(station.world.api_client("admin"), description)
    _people_and_tokens(call)
    _models_and_uploads(call)
    _names(call)
    _runtimes(call, station)
    _deployments(call, station)
    _rollouts(call, station)
    _benchmarks(call)
    _readings(call)
    assert {each.name for each in description.operations} - call.called == set()


def _tag(call: DescribedClient, path: str) -> dict[str, str]:
    return {"If-Match": call("GET", path)["ETag"]}


def _people_and_tokens(call: DescribedClient) -> None:
    call("GET", "me")
    call("POST", "people", {"username": "pat", "role": "viewer"})
    call("GET", "people?role=viewer&page_size=1")
    call("PATCH", "people/pat", {"role": "operator"}, headers=_tag(call, "people/pat"))
    call("PATCH", "people/pat", {"role": "viewer"}, ok=False)
    call("POST", "people/pat:reset_password", {})
    call("POST", "people", {"username": "pat"}, ok=False)
    for path in ("tokens/{}", "tokens/{}:revoke"):
        token = call("POST", "tokens", {"name": "walk", "expires_in_days": 1}).json()["id"]
        tag = _tag(call, f"tokens/{token}")
        if ":" in path:
            call("POST", path.format(token), {}, headers=tag)
        else:
            call("DELETE", path.format(token), headers=tag)
    call("GET", "tokens")


def _models_and_uploads(call: DescribedClient) -> None:
    call("POST", f"models{DRY}", {"name": "mlp"})
    call("POST", "models", {"name": "mlp", "description": "Digits"})
    call("POST", "models", {"name": "mlp"}, ok=False)
    call("GET", "models?search=ml&order_by=-name")
    change = {"description": "Handwritten digits"}
    call("PATCH", f"models/mlp{DRY}", change, headers=_tag(call, "models/mlp"))
    call("PATCH", "models/mlp", change, headers=_tag(call, "models/mlp"))
    _version(call, call("POST", "models/mlp/versions", _form(), format="multipart").json())
    _upload_in_parts(call)
    call("GET", "models/mlp/versions?state=READY")
    version = "models/mlp/versions/1"
    read = call("GET", version)
    call("GET", version, headers={"If-None-Match": read["ETag"]})
    call("PATCH", version, {"note": "first"}, headers={"If-Match": read["ETag"]})
    call("PATCH", f"{version}{DRY}", {"note": "2nd"}, headers=_tag(call, version))
    for action in ("archive", "restore", "validate"):
        call("POST", f"{version}:{action}{DRY}", {})
        call("POST", f"{version}:{action}", {})


def _form() -> dict[str, Any]:
    return {"file": named_file("model.onnx", CONTENT), "note": "walk"}


def _version(call: DescribedClient, operation: dict[str, Any]) -> None:
    path = f"operations/{operation['id']}"
    call("GET", f"{path}:wait?timeout=0")
    run_job(operation["id"], lambda claim: version_inspect(claim=claim))
    assert call("GET", path).json()["state"] == "SUCCEEDED"
    call("POST", f"{path}:cancel", {}, ok=False)


def _upload_in_parts(call: DescribedClient) -> None:
    asked = {"model": "mlp", "filename": "m.onnx", "size_bytes": len(CONTENT), "part_size": PART}
    call("POST", f"uploads{DRY}", asked)
    spare = call("POST", "uploads", asked).json()["id"]
    call("DELETE", f"uploads/{spare}")
    upload = call("POST", "uploads", asked).json()
    path = f"uploads/{upload['id']}"
    call("POST", f"{path}:complete", {}, ok=False)
    for number in upload["missing_parts"]:
        body = CONTENT[(number - 1) * PART : number * PART]
        digest = {"X-Part-SHA256": hashlib.sha256(body).hexdigest()}
        call("PUT", f"{path}/parts/{number}", body, content_type=RAW, headers=digest)
    call("PUT", f"{path}/samples", b"[]", content_type=RAW)
    call("GET", path)
    call("GET", "uploads?state=UPLOADING")
    call("POST", f"{path}:complete", {"sha256": hashlib.sha256(CONTENT).hexdigest()})


def _names(call: DescribedClient) -> None:
    alias = "models/mlp/aliases/champion"
    call("PUT", f"{alias}{DRY}", {"version": 1})
    call("PUT", alias, {"version": 1})
    call("PUT", alias, {"version": 1}, headers=_tag(call, alias))
    call("GET", "models/mlp/aliases")
    call("DELETE", f"{alias}{DRY}", headers=_tag(call, alias))
    call("DELETE", alias, headers=_tag(call, alias))
    call("GET", alias, ok=False)
    call("POST", f"models/mlp/stages/staging:set{DRY}", {"version": 1})
    call("POST", "models/mlp/stages/staging:set", {"version": 1, "expected_version": None})
    call("GET", "models/mlp/stages")
    call("GET", "models/mlp/promotions")
    call("GET", "models/mlp")
    call("POST", "models", {"name": "spare"})
    call("DELETE", f"models/spare{DRY}", headers=_tag(call, "models/spare"))
    call("DELETE", "models/spare", headers=_tag(call, "models/spare"))


def _runtimes(call: DescribedClient, station: Yard) -> None:
    stand_in(EDGE["grpc_address"], FakeRuntime(station.repository))
    try:
        call("POST", "runtimes", EDGE)
        change = {"metrics_address": "edge-2:8002"}
        call("PATCH", "runtimes/edge-2", change, headers=_tag(call, "runtimes/edge-2"))
        call("DELETE", "runtimes/edge-2", headers=_tag(call, "runtimes/edge-2"))
    finally:
        stand_in(EDGE["grpc_address"], None)
    call("GET", "runtimes?health=READY")
    call("POST", "runtimes/edge-1:probe", {})
    call("GET", "runtimes/edge-1/placements")
    operation = call("POST", "runtimes/edge-1:reconcile", {}).json()
    call("GET", "operations?state=PENDING&order_by=created_at")
    call("POST", f"operations/{operation['id']}:cancel", {})


def _deployments(call: DescribedClient, station: Yard) -> None:
    station.version(3)
    version = "models/resnet50/versions/3"
    call("POST", f"{version}:deploy{DRY}", {"runtime": "edge-1"})
    call("POST", f"{version}:deploy", {"runtime": "edge-1"}, headers=_tag(call, version))
    call("POST", f"{version}:deploy", {"runtime": "edge-1"}, ok=False)
    station.work()
    call("GET", "models/resnet50/placements")
    call("POST", f"{version}:undeploy{DRY}", {"runtime": "edge-1"})
    operation = call("POST", f"{version}:undeploy", {"runtime": "edge-1"}).json()
    call("POST", f"operations/{operation['id']}:cancel", {})
    config = "models/resnet50/serving-config"
    tag = _tag(call, config)
    call("PUT", f"{config}{DRY}", {"max_batch_size": 8}, headers=tag)
    call("PUT", config, {"max_batch_size": 8}, headers=tag)
    call("GET", config)


def _rollouts(call: DescribedClient, station: Yard) -> None:
    for rollouts in ("rollouts", "models/resnet50/rollouts"):
        start = "models/resnet50/rollouts"
        call("POST", f"{start}{DRY}", {"version": 2})
        call("POST", start, {"version": 2, "steps": [{"weight": 2}]}, ok=False)
        begun = call("POST", start, {"version": 2, "steps": QUICK, "guardrails": {"slo_ms": 90}})
        rollout = f"{rollouts}/{begun.json()['id']}"
        station.pass_seconds(3)
        call("POST", f"{rollout}:pause{DRY}", {})
        call("POST", f"{rollout}:pause", {"reason": "lunch"}, headers=_tag(call, rollout))
        call("POST", f"{rollout}:pause", {}, ok=False)
        for move in ("resume", "advance", "promote"):
            call("POST", f"{rollout}:{move}", {})
        station.pass_seconds(1)
        call("GET", rollout)
        call("POST", f"{rollout}:abort", {})
        call("GET", f"{rollout}/history")
        call("GET", f"{rollout}/analysis")
        call("GET", f"{rollouts}?state=ABORTED")
        station.pass_seconds(2)


def _benchmarks(call: DescribedClient) -> None:
    asked = {"model": "resnet50", "version": 1, "protocol": "grpc", "concurrency": [1, 2]}
    call("POST", f"benchmarks{DRY}", asked)
    call("POST", "benchmarks", {**asked, "version": 3}, ok=False)
    run = call("POST", "benchmarks", asked).json()["benchmark"]
    BenchmarkPoint.objects.create(
        run_id=run, concurrency=1, throughput=90.5, p50_ms=1, p90_ms=2, p95_ms=3, p99_ms=4,
        requests=900, windows=3, stable=True, client_cpu_percent=12.5,
    )  # fmt: skip
    call("GET", "benchmarks?protocol=grpc")
    call("POST", f"benchmarks/{run}:cancel", {}, headers=_tag(call, f"benchmarks/{run}"))


def _readings(call: DescribedClient) -> None:
    mark_event(kind="load", text="resnet50 v1 loaded", model_name="resnet50")
    call("GET", "models/resnet50/traffic")
    assert call("GET", "telemetry/series?model=resnet50&range=15m").json()["items"]
    call("GET", "telemetry/series?metric=happiness", ok=False)
    call("GET", "telemetry/events?model=resnet50")
    assert call("GET", "audit-events?page_size=3").json()["next_page_token"]
    call("GET", "models/nothing/traffic", ok=False)
