"""Section 9.2 of the compliance checklist: inference over HTTP, and what holds for every client."""

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.checklist_models import write_inference_models
from tests.conformance.clients import KINDS, Client
from tests.conformance.raw_http import JSON_SIZE, entry, post
from tests.conformance.runtime_process import runtime

pytestmark = pytest.mark.conformance
INTS = np.arange(16, dtype=np.int32).reshape(1, 16)
PAIR = {"INPUT0": INTS, "INPUT1": np.full_like(INTS, 3)}
SUM, DIFFERENCE = INTS + 3, INTS - 3
STRANGE = [float("nan"), float("inf"), float("-inf"), 1.5]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_inference_models(path)
    return path


def pair(data0=None, data1=None, shape=(1, 16), **more):
    """The JSON of a request for `simple`."""
    inputs = [
        entry("INPUT0", INTS.ravel().tolist() if data0 is None else data0, "INT32", shape),
        entry("INPUT1", [3] * 16 if data1 is None else data1, "INT32", shape),
    ]
    return {"inputs": inputs, **more}


def floats(data, shape, model_input="INPUT0"):
    return {"inputs": [entry(model_input, data, "FP32", shape)]}


def with_outputs(*entries):
    return [{"name": name, "parameters": parameters} for name, parameters in entries]


def fields(client, result):
    """(id, version) of an answer, "" where it has none."""
    response = result.get_response()
    if client.over_http:
        return response.get("id", ""), response["model_version"]
    return response.id, response.model_version


def failure(call, *args, **more):
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **more)
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    return caught.value.message()


def test_check_021_all_outputs_in_binary(client):
    result = client.ask("simple", PAIR)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), SUM)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), DIFFERENCE)
    assert fields(client, result)[1] == "1"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("http")])
def test_check_022_all_data_as_json(server, kind):
    client = Client(server, kind)
    tensors = []
    for name, array in PAIR.items():
        tensor = client.input(name, array.shape, "INT32")
        tensor.set_data_from_numpy(array, binary_data=False)
        tensors.append(tensor)
    asked = [client.requested(name, binary_data=False) for name in ("OUTPUT0", "OUTPUT1")]
    result = client.infer("simple", tensors, outputs=asked)
    client.close()
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), SUM)
    assert [output["data"] for output in result.get_response()["outputs"]] == [
        SUM.ravel().tolist(),
        DIFFERENCE.ravel().tolist(),
    ]


def test_check_022_json_alone_has_no_inference_header(server):
    answer = post(server, "simple", pair())
    assert answer.headers["Content-Type"] == "application/json"
    assert JSON_SIZE not in answer.headers
    assert answer.outputs["OUTPUT1"]["data"] == DIFFERENCE.ravel().tolist()


def test_check_023_one_output_binary_the_other_json(server):
    outputs = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT1"}]
    answer = post(server, "simple", pair(outputs=outputs))
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert JSON_SIZE in answer.headers
    assert answer.outputs["OUTPUT0"]["parameters"] == {"binary_data_size": 64}
    assert answer.binary == SUM.tobytes()
    assert answer.outputs["OUTPUT1"]["data"] == DIFFERENCE.ravel().tolist()


def test_check_024_binary_by_default_where_no_outputs_are_listed(server):
    answer = post(server, "simple", pair(parameters={"binary_data_output": True}))
    sizes = [output["parameters"] for output in answer.outputs.values()]
    assert sizes == [{"binary_data_size": 64}] * 2
    assert answer.binary == SUM.tobytes() + DIFFERENCE.tobytes()


def test_check_025_listed_outputs_do_not_know_that_default(server):
    outputs = [{"name": "OUTPUT0", "parameters": {"binary_data": False}}, {"name": "OUTPUT1"}]
    answer = post(server, "simple", pair(outputs=outputs, parameters={"binary_data_output": True}))
    assert all("data" in output for output in answer.outputs.values())
    assert JSON_SIZE not in answer.headers


@pytest.mark.parametrize("id_", ["42", "späte Nummer", ""])
def test_check_026_the_id_comes_back(client, id_):
    assert fields(client, client.ask("simple", PAIR, request_id=id_)) == (id_, "1")


@pytest.mark.parametrize(
    ("more", "present"), [({"id": "7"}, True), ({"id": ""}, False), ({}, False)]
)
def test_check_026_no_id_where_there_was_none(server, more, present):
    assert ("id" in post(server, "simple", pair(**more)).json) is present


def test_check_027_data_may_be_nested(server):
    rows = [list(range(16)), list(range(16, 32))]
    for data in (rows, [rows], rows[0] + [rows[1]]):
        answer = post(server, "simple", pair(data, rows, shape=(2, 16)))
        assert answer.outputs["OUTPUT0"]["data"] == [2 * value for value in range(32)]
        assert answer.outputs["OUTPUT0"]["shape"] == [2, 16]


def test_check_028_too_few_elements(server):
    answer = post(server, "simple", pair([1] * 15))
    expected = b'{"error":"Failed to parse \'data\' field: shape does not match true shape"}'
    assert (answer.status, answer.body) == (400, expected)


def test_check_029_too_many_elements(server):
    answer = post(server, "simple", pair([1] * 18))
    expected = (
        b"{\"error\":\"Unable to parse 'data': Shape does not match true shape of 'data' field\"}"
    )
    assert (answer.status, answer.body) == (400, expected)


def test_check_030_negative_shapes(server):
    error = post(server, "simple", pair(shape=(2, -5))).error
    expected = (
        "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer"
    )
    assert error == expected


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (2**4, "causes total element count to exceed maximum size of 9223372036854775807"),
        (2**2, "byte size overflow for input 'INPUT0'"),
    ],
)
def test_check_031_shapes_that_overflow(server, rows, text):
    assert text in post(server, "simple", pair(shape=(rows, 2**60 + 2))).error
    assert server.ready()


def nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


def test_check_032_nesting_has_a_limit(server):
    answer = post(server, "single", floats(nested(1.5, 50), [1]))
    assert answer.outputs["OUTPUT0"]["data"] == [1.5]
    for depth in (120, 400):
        error = post(server, "single", floats(nested(1.5, depth), [1])).error
        assert "JSON nesting depth exceeds maximum allowed limit (100)" in error


def test_check_033_text_where_numbers_are_expected(server):
    error = post(server, "simple", pair(["1"] * 16)).error
    assert "attempt to access JSON non-signed-integer as signed-integer" in error


@pytest.mark.parametrize("body", [b'{"inputs": [', b"nothing", b"", b'{"inputs":[]}}', b"\xff"])
def test_check_034_malformed_json(server, body):
    assert "failed to parse the request JSON buffer" in post(server, "simple", body).error


def test_check_035_missing_inputs_and_unknown_datatypes(server):
    missing = post(server, "simple", {"outputs": []}).error
    assert "attempt to access non-existing object member 'inputs'" in missing
    unknown = {"inputs": [entry("INPUT0", [1], "FP33", [1, 1])]}
    assert post(server, "ident", unknown).error == "invalid datatype for input INPUT0"
    half = {"inputs": [entry("INPUT0", [1], "FP16", [1, 1])]}
    error = post(server, "ident_fp16", half).error
    assert "receiving FP16 data via JSON is not supported" in error


@pytest.mark.parametrize("key", ["name", "datatype", "shape"])
def test_check_035_members_that_an_input_must_have(server, key):
    body = pair()
    del body["inputs"][0][key]
    expected = f"Unable to parse '{key}': attempt to access non-existing object member '{key}'"
    assert post(server, "simple", body).error == expected


@pytest.mark.parametrize("kind", ["http", "http-aio"])
def test_check_036_halves_leave_as_binary_only(server, kind):
    client = Client(server, kind)
    tensor = client.tensor("INPUT0", np.array([[0.5, 2]], np.float16))
    asked = client.requested("OUTPUT0", binary_data=False)
    error = failure(client.infer, "ident_fp16", [tensor], outputs=[asked])
    assert "sending FP16 data via JSON is not supported" in error
    asked = client.requested("OUTPUT0", binary_data=True)
    result = client.infer("ident_fp16", [tensor], outputs=[asked])
    client.close()
    assert result.as_numpy("OUTPUT0").tolist() == [[0.5, 2]]


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({"data": [1], "parameters": {"binary_data_size": 4}}, "set 'data' 'binary_data_size'"),
        (
            {"data": [1], "parameters": {"shared_memory_region": "r", "binary_data_size": 4}},
            "set 'data' 'binary_data_size' 'shared_memory_region'",
        ),
        ({}, "no field is set"),
        ({"parameters": {"binary_data": True}}, "no field is set"),
    ],
)
def test_check_037_data_comes_from_one_place(server, changes, ending):
    found = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], **changes}
    error = post(server, "ident", {"inputs": [found]}).error
    assert error.startswith("Input must set only one of the following fields: 'data', ")
    assert error.endswith(f"But {ending}")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("99999999999", "value is out of range [ "),
        ("-99999999999", "value is out of range [ "),
        ("abc", "Unable to parse Inference-Header-Content-Length, got: abc"),
        ("100000", "inference header size should be in range (0, "),
        ("-1", "inference header size should be in range (0, "),
    ],
)
def test_check_038_the_size_of_the_json(server, size, text):
    assert text in post(server, "simple", pair(), {JSON_SIZE: size}).error
    assert server.ready()


RAW = {JSON_SIZE: "0"}


def test_check_039_a_body_that_is_the_tensor(server):
    data = np.array([1.5, 2, -3], np.float32).tobytes()
    by_hand = b"5\r\n%b\r\n7\r\n%b\r\n0\r\n\r\n" % (data[:5], data[5:])
    for answer in (
        post(server, "ident", data, RAW),
        post(server, "ident", iter([data[:5], data[5:]]), RAW),
        post(server, "ident", by_hand, {**RAW, "Transfer-Encoding": "chunked"}),
    ):
        assert answer.outputs["OUTPUT0"]["shape"] == [1, 3]
        assert answer.outputs["OUTPUT0"]["parameters"] == {"binary_data_size": 12}
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.binary == data
    assert post(server, "single", data, RAW).outputs["OUTPUT0"]["shape"] == [3]


def test_check_040_a_body_that_is_the_text(server):
    answer = post(server, "ident_str", b"427", RAW)
    assert answer.binary == b"\x03\x00\x00\x00427"
    assert answer.outputs["OUTPUT0"]["shape"] == [1, 1]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            "simple",
            "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'simple' "
            "model configuration",
        ),
        (
            "wide",
            "The shape of the raw input 'INPUT0' can not be deduced because there are more than one "
            "variable-sized dimension",
        ),
        ("texts", "For BYTE datatype raw input 'INPUT0', the model must have input shape [1]"),
    ],
)
def test_check_041_where_the_body_can_not_be_the_tensor(server, model, text):
    assert post(server, model, b"\0" * 16, RAW).error == text


def test_check_041_a_body_that_fills_no_tensor(server):
    assert "input byte size mismatch for input 'INPUT0'" in post(server, "ident", b"123", RAW).error


LIMIT = 1000
TO_INCREASE = " Use --http-max-input-size to increase the limit."


def spaced(size):
    """A request for `single` of so many bytes."""
    body = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}'
    return body + b" " * (size - len(body))


def check_limit(server, limit):
    assert post(server, "single", spaced(limit)).status == 200
    error = post(server, "single", spaced(limit + 1)).error
    assert error == (
        f"request JSON size of {limit + 1} bytes exceeds the maximum allowed input size of "
        f"{limit} bytes.{TO_INCREASE}"
    )
    assert len(post(server, "single", bytes(limit), RAW).binary) == limit
    error = post(server, "single", bytes(limit + 4), RAW).error
    assert error == (
        f"Raw input has a byte_size ({limit + 4} bytes) that exceeds the maximum allowed value of "
        f"{limit} bytes.{TO_INCREASE}"
    )
    assert server.ready()


def test_check_042_the_size_of_bodies_is_limited(repository, tmp_path):
    options = (f"--http-max-input-size={LIMIT}", "--load-model=single")
    with runtime(repository, tmp_path / "log", *options) as server:
        check_limit(server, LIMIT)
        # What the few bytes of an input stand for counts, too; what is behind the JSON does not.
        many = floats([1] * 300, [300])
        assert "that exceeds the maximum allowed value" in post(server, "single", many).error
        client = Client(server, "http")
        given = {"INPUT0": np.arange(LIMIT, dtype=np.float32)}
        np.testing.assert_array_equal(
            client.ask("single", given).as_numpy("OUTPUT0"), given["INPUT0"]
        )
        client.close()


@pytest.mark.slow
def test_check_042_64_mebibytes_unless_the_operator_says_otherwise(server):
    check_limit(server, 64 * 2**20)


@pytest.mark.parametrize("limit", [0, -1])
def test_check_042_a_limit_that_lets_nothing_through_is_none(repository, tmp_path, limit):
    with runtime(
        repository, tmp_path / "log", f"--http-max-input-size={limit}", wait=False
    ) as server:
        assert server.wait_exit() == 1
        assert "http-max-input-size" in server.log


def test_check_046_an_output_asked_for_twice(client):
    error = failure(client.ask, "simple", PAIR, ["OUTPUT0", "OUTPUT0"])
    assert error == "[request id: <id_unknown>] output 'OUTPUT0' already exists in request"
    assert client.is_server_ready()
    np.testing.assert_array_equal(client.ask("simple", PAIR).as_numpy("OUTPUT0"), SUM)


def test_check_047_an_unknown_output(client):
    error = failure(client.ask, "simple", PAIR, ["DUMMY"])
    assert error == "unexpected inference output 'DUMMY' for model 'simple'"


def test_check_048_an_unknown_input(client):
    error = failure(client.ask, "simple", {"INPUT0": INTS, "OTHER": INTS})
    assert error == "unexpected inference input 'OTHER' for model 'simple'"


def test_check_049_nan_and_infinities_come_back(client):
    given = np.array([STRANGE], np.float32)
    result = client.ask("ident", {"INPUT0": given}).as_numpy("OUTPUT0")
    np.testing.assert_array_equal(result, given)


def test_check_049_nan_and_infinities_are_bare_words(server):
    words = b"[NaN,Infinity,-Infinity,1.5]"
    body = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,4],"data":%b}]}' % words
    answer = post(server, "ident", body)
    assert b'"data":' + words in answer.body
    np.testing.assert_array_equal(answer.outputs["OUTPUT0"]["data"], STRANGE)


@pytest.mark.parametrize(("model", "shape"), [("single", (0,)), ("ident", (1, 0)), ("texts", (0,))])
def test_check_050_tensors_without_elements(client, model, shape):
    array = np.empty(shape, np.object_ if model == "texts" else np.float32)
    result = client.ask(model, {"INPUT0": array}).as_numpy("OUTPUT0")
    assert (result.shape, result.dtype) == (shape, array.dtype)


@pytest.mark.parametrize(
    ("model", "datatype", "shape"),
    [("single", "FP32", [0]), ("ident", "FP32", [1, 0]), ("texts", "BYTES", [0])],
)
def test_check_050_tensors_without_elements_in_json(server, model, datatype, shape):
    inputs = [entry("INPUT0", [], datatype, shape)]
    output = post(server, model, {"inputs": inputs}).outputs["OUTPUT0"]
    assert (output["shape"], output["data"]) == (shape, [])
    answer = post(server, model, {"inputs": inputs, "parameters": {"binary_data_output": True}})
    assert answer.outputs["OUTPUT0"]["parameters"] == {"binary_data_size": 0}
    assert JSON_SIZE not in answer.headers


def classes(client, model, array, count=5):
    asked = client.requested("OUTPUT0", class_count=count)
    return client.infer(model, [client.tensor("INPUT0", array)], outputs=[asked]).as_numpy(
        "OUTPUT0"
    )


@pytest.mark.parametrize("rows", [1, 2])
def test_check_051_classes(client, rows):
    found = classes(client, "ident", np.ones((rows, 8), np.float32))
    assert (found.dtype, found.shape) == (np.object_, (rows, 5))
    texts = [[text.decode() for text in row] for row in found]
    assert texts == [[f"1.000000:{index}" for index in range(5)]] * rows


def test_check_051_classes_with_labels(client):
    array = np.array([[0, 10, 5, 7, 1, 2, 3, 4]], np.float32)
    found = classes(client, "labelled", array, count=2)
    assert found.tolist() == [[b"10.000000:1:label1", b"7.000000:3:label3"]]
    assert classes(client, "labelled", array, count=100).shape == (1, 8)


def test_check_051_classes_of_whole_numbers_and_of_models_without_batches(client):
    array = np.array([[4, 9, 9, -2]], np.int64)
    assert classes(client, "ident_ints", array, count=3).tolist() == [[b"9:1", b"9:2", b"4:0"]]
    assert classes(client, "single", np.ones(8, np.float32)).shape == (5,)


def test_check_052_what_has_no_classes(client):
    text = np.array([[b"x"]], np.object_)
    error = failure(classes, client, "ident_str", text)
    assert error == "class result not available for output due to unsupported type 'BYTES'"
    error = failure(classes, client, "ident_bytes", np.zeros((1, 1_000_001), np.int8))
    assert "classification output tensor too large" in error


def test_check_054_names_of_parameters_that_are_the_servers(server):
    error = post(server, "simple", pair(parameters={"triton_x": 1})).error
    assert error == (
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
        "specified."
    )


@pytest.mark.parametrize("value", [[1], {"a": 1}, None])
def test_check_054_parameters_are_texts_numbers_and_truths(server, value):
    error = post(server, "simple", pair(parameters={"mine": value})).error
    assert error == (
        "parameter 'mine' has invalid type. It should be either 'int', 'bool', or 'string'."
    )


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("sequence_start", 1, "boolean"),
        ("priority", -1, "unsigned-integer"),
        ("timeout", "1", "unsigned-integer"),
        ("binary_data_output", "true", "boolean"),
    ],
)
def test_check_054_known_parameters_have_a_type(server, key, value, wanted):
    error = post(server, "simple", pair(parameters={key: value})).error
    assert error == f"Unable to parse '{key}': attempt to access JSON non-{wanted} as {wanted}"


@pytest.mark.parametrize(
    ("model", "status", "text"),
    [
        ("nothing", 404, "Request for unknown model: 'nothing' is not found"),
        ("repeat", 501, "HTTP end point doesn't support models with decoupled transaction policy"),
    ],
)
@pytest.mark.parametrize("encoding", ["identity", "gzip", "br"])
def test_check_056_that_a_model_can_not_answer_goes_before_faults_of_the_body(
    server, model, status, text, encoding
):
    answer = post(server, model, b"{broken", {"Content-Encoding": encoding})
    assert (answer.status, answer.json) == (status, {"error": text})


@pytest.mark.parametrize(
    "inputs",
    [[], [entry("OTHER", [1], "INT32", [1])], [entry("IN", [1.5], "FP32", [1])] * 2],
    ids=["none", "unknown", "twice"],
)
def test_check_056_nor_does_it_matter_that_the_inputs_do_not_fit(server, inputs):
    answer = post(server, "repeat", {"inputs": inputs})
    text = "HTTP end point doesn't support models with decoupled transaction policy"
    assert (answer.status, answer.json) == (501, {"error": text})


def test_check_057_texts_are_bytes(client):
    given = np.array([b"\0", b"a\0b", b"\xff\xfe", b"", "ü".encode()], np.object_)
    result = client.ask("texts", {"INPUT0": given}).as_numpy("OUTPUT0")
    assert result.tolist() == given.tolist()
