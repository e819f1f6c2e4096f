"""From bytes to a READY version: what is published, recorded and answered."""

import hashlib
import json

from tests import onnx_models
from tests.publishing import (
    Publishing,
    checks_by_name,
    named_file,
    onnx_bytes,
    tar_of,
    zip_of,
)
from webapp.catalog.models import StagePointer

ADD_SUB = onnx_bytes(onnx_models.add_sub("FP32"))


def test_a_single_onnx_file_becomes_a_ready_version(publishing: Publishing) -> None:
    version = publishing.upload("adder", ADD_SUB, "my adder.onnx")

    assert version.state == "READY", version.checks
    assert publishing.published() == ["adder/1/model.onnx"]
    file = publishing.home / "repository/adder/1/model.onnx"
    assert file.read_bytes() == ADD_SUB
    assert file.stat().st_mode & 0o777 == 0o444
    digest = hashlib.sha256(ADD_SUB).hexdigest()
    assert version.files == [{"name": "model.onnx", "size_bytes": len(ADD_SUB), "sha256": digest}]
    assert version.inputs[0] == {"name": "INPUT0", "datatype": "FP32", "shape": [-1, 16]}
    assert version.metadata["batchable"] is True
    assert version.metadata["suggested_max_batch_size"] > 0
    assert publishing.bytes_kept() == 0


def test_the_operation_points_at_the_version_and_succeeds(publishing: Publishing) -> None:
    response = publishing.send("adder", ADD_SUB)

    operation = response.json()
    assert response["Operation-Location"].endswith(operation["id"])
    assert operation["target"] == "/api/v1/models/adder/versions/1"
    assert operation["version"] == 1
    publishing.check(operation)
    api = publishing.world.api_client("viewer")
    ended = api.get(f"/api/v1/operations/{operation['id']}").json()
    assert ended["state"] == "SUCCEEDED"
    assert ended["result"] == {"model": "adder", "version": 1, "state": "READY"}
    body = api.get(operation["target"]).json()
    assert body["state"] == "READY"
    assert {"checks", "inputs", "outputs", "files", "variants"} <= set(body)


def test_checks_are_in_order_and_carry_evidence(publishing: Publishing) -> None:
    version = publishing.upload("adder", ADD_SUB)

    names = [row["name"] for row in version.checks]
    assert names[0] == "size_and_quota"
    assert names[-1] == "samples"
    assert len(names) == len(set(names)) == 17
    assert all(row["detail"] for row in version.checks)
    found = checks_by_name(version)
    assert hashlib.sha256(ADD_SUB).hexdigest() in found["digest"]["detail"]
    assert found["smoke"]["status"] == "passed"
    assert found["contract"]["status"] == "skipped"


def test_an_archive_with_a_top_folder_and_a_config_is_laid_flat(publishing: Publishing) -> None:
    config = b"max_batch_size: 4\ndynamic_batching { preferred_batch_size: [2, 4] }\n"
    packed = zip_of(
        {
            "export/config.pbtxt": config,
            "export/1/net.onnx": ADD_SUB,
            "export/1/labels.txt": b"cat\ndog\n",
            "__MACOSX/._net.onnx": b"litter",
        }
    )
    version = publishing.upload("adder", packed, "export.zip")

    assert version.state == "READY", version.checks
    assert publishing.published() == ["adder/1/labels.txt", "adder/1/model.onnx"]
    assert version.config_text == config.decode()
    assert checks_by_name(version)["config_fit"]["status"] == "passed"


def test_a_tar_is_taken_too(publishing: Publishing) -> None:
    for number, mode in enumerate(("w", "w:gz"), start=1):
        packed = tar_of({"./model.onnx": ADD_SUB}, mode=mode)
        version = publishing.upload("adder", packed, "model.tar")
        assert version.state == "READY", version.checks
        assert version.number == number


def test_external_data_is_published_beside_the_model(publishing: Publishing, tmp_path) -> None:
    import onnx

    folder = tmp_path / "export"
    folder.mkdir()
    onnx.save(
        onnx_models.mlp(),
        str(folder / "model.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=16,
    )
    packed = zip_of({path.name: path.read_bytes() for path in folder.iterdir()})
    version = publishing.upload("mlp", packed, "mlp.zip")

    assert version.state == "READY", version.checks
    assert publishing.published() == ["mlp/1/model.onnx", "mlp/1/weights.bin"]
    assert "weights.bin" in checks_by_name(version)["external_data"]["detail"]


def test_given_samples_are_answered_and_compared(publishing: Publishing) -> None:
    sample = {
        "inputs": [
            {"name": name, "shape": [1, 16], "datatype": "FP32", "data": [number] * 16}
            for name, number in (("INPUT0", 3), ("INPUT1", 2))
        ],
        "expected": [{"name": "OUTPUT0", "shape": [1, 16], "datatype": "FP32", "data": [5.0] * 16}],
    }
    version = publishing.upload(
        "adder", ADD_SUB, samples=named_file("s.json", json.dumps(sample).encode())
    )
    assert checks_by_name(version)["samples"]["status"] == "passed", version.checks

    sample["expected"][0]["data"] = [6.0] * 16
    refused = publishing.upload(
        "adder", ADD_SUB, samples=named_file("s.json", json.dumps(sample).encode())
    )
    assert refused.state == "REJECTED"
    failed = checks_by_name(refused)["samples"]
    assert failed["status"] == "failed"
    assert "OUTPUT0" in failed["detail"]
    assert publishing.published() == ["adder/1/model.onnx"]


def test_a_version_with_another_contract_is_ready_with_a_warning(publishing: Publishing) -> None:
    first = publishing.upload("adder", ADD_SUB)
    StagePointer.objects.create(model=first.model, stage="production", version=first)
    second = publishing.upload("adder", onnx_bytes(onnx_models.add_sub("INT32", (8,))))

    assert first.state == second.state == "READY"
    contract = checks_by_name(second)["contract"]
    assert contract["status"] == "warned"
    assert "version 1" in contract["detail"]
    assert "INPUT0 is INT32, was FP32" in contract["detail"]


def test_numbers_are_given_once_even_to_rejected_versions(publishing: Publishing) -> None:
    assert publishing.upload("adder", b"not onnx at all").number == 1
    assert publishing.upload("adder", ADD_SUB).number == 2
    assert publishing.published() == ["adder/2/model.onnx"]
