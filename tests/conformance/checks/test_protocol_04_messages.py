"""Section 9.4 of the compliance checklist: what a ModelInferRequest may hold, by a plain stub."""

import grpc
import numpy as np
import pytest

from inference_runtime import pb
from inference_runtime.spec.datatypes import BY_WIRE
from tests.conformance.checklist_models import write_message_models
from tests.conformance.clients import KINDS, Client
from tests.conformance.raw_grpc import infer, message_of, open_stub
from tests.conformance.repeat_model import repeat_inputs

pytestmark = pytest.mark.conformance
# Datatype → the field its values travel in, and values that it just holds.
CONTENTS = {
    "BOOL": ("bool_contents", [True, False, True]),
    "INT8": ("int_contents", [-128, 0, 127]),
    "INT16": ("int_contents", [-(2**15), 0, 2**15 - 1]),
    "INT32": ("int_contents", [-(2**31), 0, 2**31 - 1]),
    "INT64": ("int64_contents", [-(2**63), 0, 2**63 - 1]),
    "UINT8": ("uint_contents", [0, 1, 255]),
    "UINT16": ("uint_contents", [0, 1, 2**16 - 1]),
    "UINT32": ("uint_contents", [0, 1, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 1, 2**64 - 1]),
    "FP32": ("fp32_contents", [-1.5, 0, float("inf")]),
    "FP64": ("fp64_contents", [-1.5, 1e300, float("-inf")]),
}
FLOATS = np.array([1.5, -2], np.float32)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_message_models(path, [*CONTENTS, "BYTES", "FP16", "BF16"])
    return path


def request(model, datatype="FP32", shape=(2,), *, raw=(), **fields):
    """For the only input; `fields` of its contents."""
    made = pb.ModelInferRequest(model_name=model, raw_input_contents=raw)
    tensor = made.inputs.add(name="INPUT0", datatype=datatype, shape=shape)
    for name, values in fields.items():
        getattr(tensor.contents, name).extend(values)
    return made


def refusal(server, made, code=grpc.StatusCode.INVALID_ARGUMENT):
    with pytest.raises(grpc.RpcError) as caught:
        infer(server, made)
    assert caught.value.code() is code
    return caught.value.details()


@pytest.mark.parametrize("datatype", CONTENTS)
def test_check_069_typed_contents_of_every_datatype(server, datatype):
    field, values = CONTENTS[datatype]
    answer = infer(server, request(f"echo_{datatype}", datatype, (3,), **{field: values}))
    (output,) = answer.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("OUTPUT0", datatype, [3])
    assert not output.HasField("contents")
    (raw,) = answer.raw_output_contents
    assert np.frombuffer(raw, BY_WIRE[datatype].dtype).tolist() == values


def test_check_069_typed_texts(server):
    answer = infer(server, request("echo_BYTES", "BYTES", (2,), bytes_contents=[b"a\0b", b""]))
    assert list(answer.raw_output_contents) == [b"\x03\0\0\0a\0b\0\0\0\0"]


@pytest.mark.parametrize(
    ("datatype", "field", "value"),
    [("INT8", "int_contents", 128), ("UINT16", "uint_contents", 2**16)],
)
def test_check_069_values_that_do_not_fit_are_refused(server, datatype, field, value):
    text = refusal(server, request(f"echo_{datatype}", datatype, (1,), **{field: [value]}))
    assert text == (f"a value of input tensor 'INPUT0' is out of range for datatype '{datatype}'")


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_check_069_halves_come_as_raw_bytes_only(server, datatype):
    data = b"\x00\x3c\x00\xbc"
    answer = infer(server, request(f"echo_{datatype}", datatype, raw=[data]))
    assert list(answer.raw_output_contents) == [data]
    text = refusal(server, request(f"echo_{datatype}", datatype, fp32_contents=[1, -1]))
    assert "unexpected explicit tensor data for input tensor 'INPUT0'" in text


def test_check_069_too_few_and_too_many_typed_values(server):
    for count in (1, 3):
        text = refusal(server, request("echo_FP32", fp32_contents=[1.5] * count))
        assert (
            f"input byte size mismatch for input 'INPUT0' for model 'echo_FP32'. Expected 8, got {4 * count}"
            in text
        )


def test_check_070_raw_and_typed_contents_in_one_request(server):
    made = request("echo_FP32", raw=[FLOATS.tobytes()], fp32_contents=[1.5, -2])
    assert refusal(server, made) == (
        "contents field must not be specified when using raw_input_contents for 'INPUT0' for model "
        "'echo_FP32'"
    )
    made = request("echo_FP32", raw=[FLOATS.tobytes()])
    made.inputs[0].contents.SetInParent()  # empty, and there
    assert "contents field must not be specified" in refusal(server, made)


def test_check_071_the_wrong_field(server):
    text = refusal(server, request("echo_FP32", int_contents=[1, 2]))
    assert text.startswith("unexpected explicit tensor data for input tensor 'INPUT0'")
    assert text.endswith("of type 'INT32', expected datatype 'FP32'")


def test_check_071_two_fields(server):
    start = "unexpected explicit tensor data for input tensor 'INPUT0' for model 'echo_FP32'"
    text = refusal(server, request("echo_FP32", int_contents=[1], fp32_contents=[1, 2]))
    assert text == f"{start} of type 'INT32', expected datatype 'FP32'"
    text = refusal(server, request("echo_FP32", fp32_contents=[1, 2], fp64_contents=[1]))
    assert text == f"{start}, binary data was already supplied."


def test_check_071_an_unknown_datatype(server):
    made = request("echo_FP32", "FP33", raw=[FLOATS.tobytes()])
    assert refusal(server, made) == "invalid datatype for input INPUT0"


def test_check_072_no_data_for_an_input(server):
    text = "unable to find data for input tensor 'INPUT0' for model 'echo_FP32' in request."
    assert refusal(server, request("echo_FP32")) == text
    made = request("pair", raw=[FLOATS.tobytes()])
    made.inputs.add(name="INPUT1", datatype="FP32", shape=[2])
    assert refusal(server, made) == text.replace("INPUT0", "INPUT1").replace("echo_FP32", "pair")


def test_check_072_more_raw_contents_than_inputs(server):
    answer = infer(server, request("echo_FP32", raw=[FLOATS.tobytes(), b"more"]))
    assert list(answer.raw_output_contents) == [FLOATS.tobytes()]


@pytest.mark.slow
def test_check_073_ten_million_texts(server):
    count = 10 * 2**20
    made = request("echo_BYTES", "BYTES", (count,), bytes_contents=[b"x"] * count)
    limits = [
        ("grpc.max_send_message_length", 256 * 2**20),
        ("grpc.max_receive_message_length", 256 * 2**20),
    ]
    with open_stub(server, limits) as stub:
        answer = stub.ModelInfer(made, timeout=120)
    (raw,) = answer.raw_output_contents
    assert raw == b"\x01\0\0\0x" * count
    assert server.ready()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("grpc")])
def test_check_074_large_messages(server, kind):
    client = Client(server, kind)
    given = np.arange(3 * 2**20, dtype=np.float32)  # 12 MiB
    result = client.ask("echo_FP32", {"INPUT0": given})
    client.close()
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), given)


def test_check_075_a_decoupled_model_by_a_plain_stub(server):
    made = message_of("repeat", repeat_inputs([1]))
    text = refusal(server, made, grpc.StatusCode.UNIMPLEMENTED)
    assert text == "ModelInfer RPC doesn't support models with decoupled transaction policy"


def test_check_075_whatever_else_is_wrong_with_the_request(server):
    for made in (
        pb.ModelInferRequest(model_name="repeat"),
        request("repeat", raw=[FLOATS.tobytes()]),
    ):
        text = refusal(server, made, grpc.StatusCode.UNIMPLEMENTED)
        assert text == "ModelInfer RPC doesn't support models with decoupled transaction policy"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("sequence_start", {"int64_param": 1}, "expected bool_param."),
        ("sequence_end", {"string_param": "true"}, "expected bool_param."),
        ("sequence_id", {"bool_param": True}, "expected int64_param or string_param."),
        ("priority", {"string_param": "1"}, "expected int64_param or uint64_param."),
        ("timeout", {"uint64_param": 1}, "expected int64_param."),
        ("triton_enable_empty_final_response", {"int64_param": 1}, "expected bool_param."),
        ("mine", {"uint64_param": 1}, "expected int64_param, bool_param, or string_param."),
    ],
)
def test_check_076_parameters_in_the_wrong_field(server, key, value, text):
    made = request("echo_FP32", raw=[FLOATS.tobytes()])
    made.parameters[key].CopyFrom(pb.InferParameter(**value))
    assert refusal(server, made) == f"invalid value type for '{key}' parameter, {text}"


def test_check_076_a_negative_priority(server):
    made = request("echo_FP32", raw=[FLOATS.tobytes()])
    made.parameters["priority"].int64_param = -1
    assert refusal(server, made) == "invalid value for 'priority', expected value >= 0."


def test_check_076_names_of_parameters_that_are_the_servers(server):
    made = request("echo_FP32", raw=[FLOATS.tobytes()])
    made.parameters["triton_foo"].int64_param = 1
    assert refusal(server, made) == (
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys "
        "starting with 'triton_' are allowed: triton_enable_empty_final_response"
    )


def test_check_077_no_repository_is_chosen_by_name(server):
    with open_stub(server) as stub:
        for call, message in (
            (stub.RepositoryIndex, pb.RepositoryIndexRequest),
            (stub.RepositoryModelLoad, pb.RepositoryModelLoadRequest),
            (stub.RepositoryModelUnload, pb.RepositoryModelUnloadRequest),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(message(repository_name="other"))
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert caught.value.details() == "'repository_name' specification is not supported"
        assert len(stub.RepositoryIndex(pb.RepositoryIndexRequest()).models) > 10
