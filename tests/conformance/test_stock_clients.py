"""tritonclient, sync and async, over HTTP and gRPC: metadata, inference of every datatype, faults."""

import ml_dtypes
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from inference_runtime.spec.datatypes import BY_WIRE
from tests.onnx_models import ONNX_TYPES

pytestmark = pytest.mark.conformance


def pair(batch=1):
    first = np.arange(16 * batch, dtype=np.int32).reshape(batch, 16)
    return {"INPUT0": first, "INPUT1": np.full_like(first, 2)}


def test_server_and_models_describe_themselves(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    server = client.names(client.get_server_metadata())
    assert server["name"] == "triton"
    assert {"binary_tensor_data", "statistics", "switchyard_traffic"} <= set(server["extensions"])
    metadata = client.names(client.get_model_metadata("versions"))
    assert metadata["versions"] == ["1", "2", "3"]
    assert metadata["platform"] == "onnxruntime_onnx"
    assert [int(dim) for dim in metadata["inputs"][0]["shape"]] == [-1, 4]
    assert client.names(client.get_model_metadata("versions", "2"))["versions"] == ["2"]
    config = client.names(client.get_model_config("simple"))
    config = config if client.over_http else config["config"]
    assert config["max_batch_size"] == 8
    assert config["input"][0]["data_type"] == "TYPE_INT32"


def test_readiness_of_models_is_a_plain_yes_or_no(client):
    assert client.is_model_ready("simple")
    assert client.is_model_ready("versions", "3")
    assert not client.is_model_ready("versions", "9")
    assert not client.is_model_ready("unknown")


def test_lookups_name_what_is_missing(client):
    with pytest.raises(InferenceServerException) as caught:
        client.get_model_metadata("foo")
    assert "Request for unknown model: 'foo' is not found" in str(caught.value)
    with pytest.raises(InferenceServerException) as caught:
        client.ask("simple", pair(), model_version="99")
    assert "Request for unknown model: 'simple' version 99 is not found" in str(caught.value)


def test_sums_and_differences_come_back_right(client):
    for batch in (1, 8):
        given = pair(batch)
        result = client.ask("simple", given)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), given["INPUT0"] + 2)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), given["INPUT0"] - 2)
    only = client.ask("simple", pair(), outputs=["OUTPUT1"])
    assert only.as_numpy("OUTPUT0") is None
    assert only.as_numpy("OUTPUT1") is not None


def test_versions_answer_by_number_and_the_highest_by_default(client):
    zero = {"INPUT0": np.zeros((1, 4), np.float32)}
    for version in ("1", "2", "3", ""):
        result = client.ask("versions", zero, model_version=version)
        assert result.as_numpy("OUTPUT0")[0, 0] == int(version or 3)


def some(datatype: str, shape) -> np.ndarray:
    count = int(np.prod(shape))
    if datatype == "BYTES":
        texts = [f"é{number}".encode() for number in range(count)]
        array = np.empty(count, object)
        array[:] = texts
        return array.reshape(shape)
    if datatype == "BF16":
        return (np.arange(count) - 2).astype(ml_dtypes.bfloat16).reshape(shape)
    return (np.arange(count) % 2).astype(BY_WIRE[datatype].dtype).reshape(shape)


@pytest.mark.parametrize("datatype", sorted(ONNX_TYPES))
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("identity", (1, 3)),
        ("identity", (3, 2)),
        ("identity", (1, 0)),
        ("scalar", (1,)),
        ("whole", (2, 3)),
        ("whole", (0, 5)),
    ],
    ids=lambda value: str(value),
)
def test_every_datatype_comes_back_as_it_went_in(client, datatype, model, shape):
    given = some(datatype, shape)
    result = client.ask(f"{model}_{datatype}", {"INPUT0": given}, datatype=datatype)
    answer = result.as_numpy("OUTPUT0")
    assert answer.shape == shape
    assert answer.tolist() == given.tolist()


def test_faults_of_requests_and_models_are_told_apart(client):
    with pytest.raises(InferenceServerException) as caught:
        client.ask("simple", pair(9))
    assert "inference request batch-size must be <= 8 for 'simple'" in str(caught.value)
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    with pytest.raises(InferenceServerException) as caught:
        client.ask("failing", {"INDEX": np.array([[99]], np.int64)})
    assert "onnx runtime error 2" in str(caught.value)
    assert caught.value.status() in ("500", "StatusCode.INTERNAL")
    result = client.ask("failing", {"INDEX": np.array([[4]], np.int64)})
    assert result.as_numpy("OUTPUT0").tolist() == [[40]]


def test_classes_carry_the_labels_of_the_model(client):
    image = np.random.default_rng(0).random((2, 784), np.float32)
    result = client.infer(
        "mlp", [client.tensor("x", image)], outputs=[client.requested("y", class_count=3)]
    )
    classes = result.as_numpy("y")
    assert classes.shape == (2, 3)
    value, index, label = classes[0, 0].decode().split(":")
    assert label == f"label{index}"
    assert float(value) >= float(classes[0, 1].decode().split(":")[0])


def test_statistics_count_what_was_asked(client):
    before = client.names(client.get_inference_statistics("failing"))["model_stats"][0]
    client.ask("failing", {"INDEX": np.array([[1], [2]], np.int64)})
    after = client.names(client.get_inference_statistics("failing"))["model_stats"][0]
    assert int(after["inference_count"]) - int(before.get("inference_count", 0)) == 2
    with pytest.raises(InferenceServerException, match="requested model 'x' is not available"):
        client.get_inference_statistics("x")


def test_the_index_lists_every_version(client):
    index = client.names(client.get_model_repository_index())
    entries = index if client.over_http else index["models"]
    states = {(entry["name"], entry.get("version")): entry["state"] for entry in entries}
    assert {states["versions", str(version)] for version in (1, 2, 3)} == {"READY"}
