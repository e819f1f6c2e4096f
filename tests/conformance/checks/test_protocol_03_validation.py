"""Section 9.3 of the compliance checklist: requests that do not fit the model they are sent to."""

import grpc
import numpy as np
import orjson
import pytest
from tritonclient.utils import InferenceServerException

from inference_runtime import pb
from tests.conformance.checklist_models import write_validation_models
from tests.conformance.raw_grpc import infer
from tests.conformance.raw_http import JSON_SIZE, entry, post

pytestmark = pytest.mark.conformance
ANONYMOUS = "[request id: <id_unknown>] "
ROW = np.ones((1, 4), np.float32)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_validation_models(path)
    return path


def refusal(client, model, inputs, **more):
    """The text of a fault that is the client's; the model is there for others as before."""
    with pytest.raises(InferenceServerException) as caught:
        client.ask(model, inputs, **more)
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert client.is_model_ready(model)
    return caught.value.message()


def rows(count, datatype=np.int32, width=16):
    return np.ones((count, width), datatype)


MISSING_ALL = (
    "expected 3 inputs but got 0 inputs for model 'three_in'. Got input(s) [], but missing required "
    "input(s) ['INPUT0','INPUT1','INPUT2']. Please provide all required input(s)."
)


def test_check_059_no_input_of_three(client):
    assert refusal(client, "three_in", {}) == ANONYMOUS + MISSING_ALL


def test_check_059_one_and_four_inputs_of_three(client):
    found = refusal(client, "three_in", {"INPUT1": ROW})
    assert "expected 3 inputs but got 1 inputs for model 'three_in'" in found
    assert "Got input(s) ['INPUT1'], but missing required input(s) ['INPUT0','INPUT2']" in found
    found = refusal(client, "three_in", {f"INPUT{number}": ROW for number in range(4)})
    assert "expected 3 inputs but got 4 inputs for model 'three_in'" in found


def test_check_060_one_of_three_inputs_and_an_optional_one(client):
    assert refusal(client, "opt_in", {"INPUT0": ROW}) == (
        f"{ANONYMOUS}expected number of inputs between 3 and 4 but got 1 inputs for model 'opt_in'. "
        "Got input(s) ['INPUT0'], but missing required input(s) ['INPUT1','INPUT2']. Please provide "
        "all required input(s)."
    )


def test_check_060_an_optional_input_stands_for_no_other(client):
    given = dict.fromkeys(("INPUT3", "INPUT0", "INPUT1"), ROW)
    found = refusal(client, "opt_in", given)
    assert (
        "Got input(s) ['INPUT0','INPUT1','INPUT3'], but missing required input(s) ['INPUT2']"
        in found
    )
    for names in (range(3), range(4)):
        result = client.ask("opt_in", {f"INPUT{number}": ROW for number in names})
        np.testing.assert_array_equal(result.as_numpy("OUTPUT2"), ROW)


@pytest.mark.parametrize("names", [(), ("INPUT0",), ("INPUT1",), ("INPUT0", "INPUT1")])
def test_check_061_every_input_may_be_left_out(client, names):
    inputs = {name: np.ones(2, np.float32) for name in names}
    assert client.ask("all_optional", inputs).as_numpy("GIVEN").tolist() == [
        ",".join(names).encode()
    ]


def test_check_062_a_batch_that_is_too_large(client):
    text = "inference request batch-size must be <= 8 for 'simple'"
    inputs = {"INPUT0": rows(9), "INPUT1": rows(9)}
    assert refusal(client, "simple", inputs) == ANONYMOUS + text
    assert refusal(client, "simple", inputs, request_id="7") == f"[request id: 7] {text}"


def test_check_063_inputs_of_different_batch_sizes(client):
    found = refusal(client, "simple", {"INPUT0": rows(1), "INPUT1": rows(2)})
    assert found == (
        f"{ANONYMOUS}input 'INPUT1' batch size does not match other inputs for 'simple'"
    )


def test_check_064_another_datatype(client):
    found = refusal(client, "simple", {"INPUT0": rows(1, np.float32), "INPUT1": rows(1)})
    assert found == (
        f"{ANONYMOUS}inference input 'INPUT0' data-type is 'FP32', but model 'simple' expects 'INT32'"
    )


def test_check_065_another_shape(client):
    found = refusal(client, "simple", {"INPUT0": rows(1, width=8), "INPUT1": rows(1)})
    assert found.startswith(
        f"{ANONYMOUS}unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got "
        "[1,8]. NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension "
        "to be prepended to each input shape."
    )


def raw_refusal(server, model, datatype, shape, data):
    """Of a binary INPUT0 over HTTP and over gRPC: the text, which is the same."""
    declared = {"name": "INPUT0", "datatype": datatype, "shape": shape}
    document = orjson.dumps(
        {"inputs": [{**declared, "parameters": {"binary_data_size": len(data)}}]}
    )
    over_http = post(server, model, document + data, {JSON_SIZE: str(len(document))}).error
    request = pb.ModelInferRequest(model_name=model, raw_input_contents=[data])
    request.inputs.add(**declared)
    with pytest.raises(grpc.RpcError) as caught:
        infer(server, request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == over_http
    return over_http


def test_check_066_more_bytes_than_the_shape_has(server):
    found = raw_refusal(server, "ident", "FP32", [1, 8], bytes(40))
    assert found == (
        f"{ANONYMOUS}input byte size mismatch for input 'INPUT0' for model 'ident'. Expected 32, got 40"
    )
    assert "Expected 32, got 28" in raw_refusal(server, "ident", "FP32", [1, 8], bytes(28))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (
            14,
            "expected 16 string elements for inference input 'INPUT0' for model 'strings', got 14",
        ),
        (
            18,
            "unexpected number of string elements 17 for inference input 'INPUT0' for model "
            "'strings', expecting 16",
        ),
    ],
)
def test_check_067_too_few_and_too_many_texts(server, count, text):
    data = b"\x02\0\0\0ab" * count
    assert raw_refusal(server, "strings", "BYTES", [1, 16], data) == ANONYMOUS + text


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (b"\x02\0", "incomplete string length indicator for inference input 'INPUT0'"),
        (b"\x05\0\0\0abc", "incomplete string data for inference input 'INPUT0'"),
    ],
)
def test_check_067_a_last_text_that_is_cut_short(server, end, text):
    data = b"\x02\0\0\0ab" * 15 + end
    assert text in raw_refusal(server, "strings", "BYTES", [1, 16], data)


@pytest.mark.parametrize(
    ("model", "shape"),
    [("reshaped_whole", (1,)), ("reshaped", (1, 1)), ("reshaped", (5, 1))],
)
def test_check_068_the_models_shape_is_not_the_clients(client, model, shape):
    given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(client.ask(model, {"INPUT0": given}).as_numpy("OUTPUT0"), given)
    (port,) = client.names(client.get_model_metadata(model))["inputs"]
    assert [int(size) for size in port["shape"]] == [-1, 1][-len(shape) :]


def test_check_068_the_models_own_shape_is_refused(server):
    found = post(server, "reshaped", {"inputs": [entry("INPUT0", [1], "FP32", [1])]}).error
    assert (
        "unexpected shape for input 'INPUT0' for model 'reshaped'. Expected [-1,1], got [1]."
        in found
    )
