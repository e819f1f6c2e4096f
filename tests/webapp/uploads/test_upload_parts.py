"""Parts: any order, again, damaged, too long, missing; then one version of them."""

import base64
import hashlib

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.publishing import Publishing, onnx_bytes
from tests.webapp.uploads.parts import PART, part_of, send, send_all, start
from tests.world import assert_problem
from webapp.catalog.models import ModelVersion


@pytest.fixture(scope="module")
def content() -> bytes:
    """A real model of about 1 MB, so that there are several parts."""
    weights = np.random.default_rng(3).random((512, 512)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 512])],
        [numpy_helper.from_array(weights, "w")],
    )
    return onnx_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )


def test_parts_in_any_order_make_a_version(publishing: Publishing, content: bytes) -> None:
    api = publishing.world.api_client()
    upload = start(api, content, sha256=hashlib.sha256(content).hexdigest())
    assert upload["missing_parts"] == list(range(1, upload["part_count"] + 1))
    assert upload["part_count"] == 5
    for number in (5, 2, 4, 1):
        assert send(api, upload, number, part_of(content, number)).status_code == 200
    seen = api.get(f"/api/v1/uploads/{upload['id']}").json()
    assert seen["missing_parts"] == [3]
    assert seen["received_bytes"] == len(content) - PART

    early = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})
    assert assert_problem(early, 409, "PARTS_MISSING")["missing_parts"] == [3]
    send(api, upload, 3, part_of(content, 3))
    done = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})
    assert done.status_code == 202
    version = publishing.check(done.json())

    assert version.state == "READY", version.checks
    assert version.files[0]["sha256"] == hashlib.sha256(content).hexdigest()
    assert publishing.bytes_kept() == 0


def test_completing_twice_gives_the_same_operation(publishing: Publishing, content: bytes) -> None:
    api = publishing.world.api_client()
    upload = start(api, content)
    send_all(api, upload, content)
    first = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})
    again = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})

    assert first.json()["id"] == again.json()["id"]
    assert first.json()["target"] == "/api/v1/models/m/versions/1"
    assert ModelVersion.objects.count() == 1
    publishing.check(first.json())
    late = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})
    assert late.json()["state"] == "SUCCEEDED"
    assert_problem(send(api, upload, 1, part_of(content, 1)), 409, "UPLOAD_NOT_OPEN")


def test_a_part_sent_again_replaces_the_first(publishing: Publishing, content: bytes) -> None:
    api = publishing.world.api_client()
    upload = start(api, content)
    send_all(api, upload, content)
    wrong = bytes(PART)
    assert send(api, upload, 2, wrong).status_code == 200
    assert send(api, upload, 2, part_of(content, 2)).status_code == 200
    done = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})

    assert publishing.check(done.json()).state == "READY"


def test_a_damaged_part_is_refused_and_missing(publishing: Publishing, content: bytes) -> None:
    api = publishing.world.api_client()
    upload = start(api, content)
    body = part_of(content, 1)
    digest = hashlib.sha256(body).hexdigest()
    damaged = b"\x00" + body[1:]

    refused = send(api, upload, 1, damaged, **{"X-Part-SHA256": digest})
    assert "send the part again" in assert_problem(refused, 400, "PART_DIGEST_MISMATCH")["help"]
    binary = base64.b64encode(hashlib.sha256(body).digest()).decode()
    refused = send(api, upload, 1, damaged, **{"Content-Digest": f"sha-256=:{binary}:"})
    assert_problem(refused, 400, "PART_DIGEST_MISMATCH")
    assert 1 in api.get(f"/api/v1/uploads/{upload['id']}").json()["missing_parts"]
    assert send(api, upload, 1, body, **{"X-Part-SHA256": digest}).status_code == 200


@pytest.mark.parametrize("cut", [0, 1], ids=["damaged", "cut short"])
def test_a_part_sent_again_that_is_no_good_leaves_the_stored_one(
    publishing: Publishing, content: bytes, cut: int
) -> None:
    api = publishing.world.api_client()
    upload = start(api, content)
    send_all(api, upload, content)
    body = part_of(content, 2)
    announced = {"X-Part-SHA256": hashlib.sha256(b"another").hexdigest()}

    refused = send(api, upload, 2, bytes(PART)[cut:], **announced)
    assert_problem(refused, 400, "PART_TOO_SHORT" if cut else "PART_DIGEST_MISMATCH")
    seen = api.get(f"/api/v1/uploads/{upload['id']}").json()
    assert seen["missing_parts"] == []
    folder = publishing.home / "uploads" / upload["id"]
    assert (folder / "payload").read_bytes()[PART : 2 * PART] == body
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "payload"]
    done = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})
    assert publishing.check(done.json()).state == "READY"


def test_a_part_of_another_length_is_refused(publishing: Publishing, content: bytes) -> None:
    api = publishing.world.api_client()
    upload = start(api, content)

    longer = send(api, upload, 1, part_of(content, 1) + b"x")
    assert "cut off" in assert_problem(longer, 413, "PART_TOO_LONG")["detail"]
    assert_problem(send(api, upload, 1, b"short"), 400, "PART_TOO_SHORT")
    assert_problem(send(api, upload, 6, b"x"), 400, "NO_SUCH_PART")
    assert_problem(send(api, upload, 0, b"x"), 400, "NO_SUCH_PART")
    payload = publishing.home / "uploads" / upload["id"] / "payload"
    assert payload.stat().st_size == len(content)


def test_a_wrong_digest_of_the_whole_rejects_the_version(
    publishing: Publishing, content: bytes
) -> None:
    api = publishing.world.api_client()
    upload = start(api, content)
    send_all(api, upload, content)
    done = api.post(f"/api/v1/uploads/{upload['id']}:complete", {"sha256": "ab" * 32})
    version = publishing.check(done.json())

    publishing.assert_rejected(version, "digest", "ab" * 32, "sha256sum")


def test_bytes_that_rot_on_our_disk_are_noticed(publishing: Publishing, content: bytes) -> None:
    api = publishing.world.api_client()
    upload = start(api, content)
    send_all(api, upload, content)
    with (publishing.home / "uploads" / upload["id"] / "payload").open("r+b") as file:
        file.seek(PART + 5)
        file.write(b"\xff\x00\xff\x00")
    done = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})

    publishing.assert_rejected(publishing.check(done.json()), "digest", "Part 2")


def test_the_config_and_note_of_the_start_reach_the_version(
    publishing: Publishing, content: bytes
) -> None:
    api = publishing.world.api_client()
    upload = start(api, content, config="max_batch_size: 16\n", note="from CI 4711")
    answer = api.put(
        f"/api/v1/uploads/{upload['id']}/samples",
        b'{"inputs": []}',
        content_type="application/json",
        headers={"X-File-Name": "s.json"},
    )
    assert answer.json()["samples"] == "s.json"
    send_all(api, upload, content)
    done = api.post(f"/api/v1/uploads/{upload['id']}:complete", {})
    version = publishing.check(done.json())

    assert version.config_text == "max_batch_size: 16\n"
    assert version.note == "from CI 4711"
    failed = next(row for row in version.checks if row["status"] == "failed")
    assert failed["name"] == "samples"
    assert "lacks input" in failed["detail"]
