import numpy as np
import pytest

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol.http_codec import decode_infer, split_binary
from inference_runtime.protocol.http_raw import decode_raw
from inference_runtime.protocol.request_heads import RequestHeads
from inference_runtime.spec.region_span import RegionPlan, RegionSpan

LIMIT = 1000


def read(document, heads=None):
    return decode_infer(document, ("m", ""), heads or RequestHeads(), LIMIT)


def request(**entry):
    base = {"name": "A", "shape": [1, 2], "datatype": "INT32", "data": [1, 2]}
    return {"inputs": [{**base, **entry}]}


def without(key, **entry):
    document = request(**entry)
    del document["inputs"][0][key]
    return document


def refusal(document):
    with pytest.raises(InvalidArgument) as caught:
        read(document)
    return caught.value.text


def test_reads_head_and_data():
    infer = read({"id": "7", **request()})
    assert infer.id == "7"
    assert infer.sources == [np.array([1, 2], np.int32).tobytes()]
    (tensor,) = infer.head.inputs
    assert (tensor.name, tensor.datatype, tensor.shape) == ("A", "INT32", (1, 2))
    assert (infer.head.model_name, infer.head.version, infer.head.outputs) == ("m", "", ())


def test_equal_requests_share_one_head():
    heads = RequestHeads()
    first, second = read(request(), heads), read(request(data=[3, 4]), heads)
    assert first.head is second.head
    assert read(request(shape=[2, 1]), heads).head is not first.head
    assert read({**request(), "parameters": {"x": 1}}, heads).head is not first.head


def test_parameters_of_equal_value_and_other_type_are_not_equal():
    heads = RequestHeads()
    made = [
        read({**request(), "parameters": {"x": value}}, heads).head for value in (1, True, 1.0, "1")
    ]
    assert len({id(head) for head in made}) == 4
    assert [head.parameters["x"] for head in made] == [1, True, 1.0, "1"]


def test_reads_what_the_parameters_mean():
    head = read(
        {
            "parameters": {
                "sequence_id": "abc",
                "sequence_start": True,
                "sequence_end": False,
                "priority": 3,
                "timeout": 500,
                "binary_data_output": True,
                "temperature": 0.5,
            },
            **request(),
        }
    ).head
    assert (head.sequence_id, head.sequence_start, head.sequence_end) == ("abc", True, False)
    assert (head.priority, head.timeout_us, head.binary_default) == (3, 500, True)
    assert head.parameters == {"temperature": 0.5}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"priority": -1},
            "Unable to parse 'priority': attempt to access JSON non-unsigned-integer",
        ),
        ({"timeout": "1"}, "Unable to parse 'timeout'"),
        ({"sequence_id": 1.5}, "Unable to parse 'sequence_id'"),
        ({"sequence_start": 1}, "Unable to parse 'sequence_start'"),
        ({"binary_data_output": 1}, "Unable to parse 'binary_data_output'"),
        ({"triton_x": 1}, "parameter keys starting with 'triton_' are reserved for Triton usage"),
        (
            {"x": []},
            "parameter 'x' has invalid type. It should be either 'int', 'bool', or 'string'.",
        ),
        ({"x": None}, "parameter 'x' has invalid type."),
        ([], "Unable to parse 'parameters': attempt to access JSON non-array as array"),
    ],
)
def test_wrong_parameters_are_refused(parameters, text):
    found = refusal({**request(), "parameters": parameters})
    assert text.split("JSON")[0] in found


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "attempt to access JSON non-object as object"),
        ({}, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
        ({"inputs": {}}, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
        ({"inputs": [1]}, "Unable to parse 'inputs'"),
        (
            {"id": 5, **request()},
            "Unable to parse 'id': attempt to access JSON non-string as string",
        ),
        (without("name"), "Unable to parse 'name': attempt to access non-existing object member"),
        (without("datatype"), "Unable to parse 'datatype'"),
        (without("shape"), "Unable to parse 'shape'"),
        (request(datatype="INT33"), "invalid datatype for input A"),
        (
            request(shape=[2, -5]),
            "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
        ),
        (
            request(shape=[2**4, 2**60 + 2]),
            "causes total element count to exceed maximum size of 9223372036854775807",
        ),
        (request(shape=[2**2, 2**60 + 2]), "byte size overflow for input 'A'"),
        (request(shape=[2**63]), "contains one or more invalid dimensions"),
        (
            without("data"),
            "Input must set only one of the following fields: 'data', 'binary_data_size' in ",
        ),
        (without("data"), "But no field is set"),
        (request(parameters={"binary_data_size": 8}), "But set 'data' 'binary_data_size'"),
        (
            without("data", parameters={"binary_data_size": 8, "shared_memory_region": "r"}),
            "But set 'binary_data_size' 'shared_memory_region'",
        ),
        (
            without("data", parameters={"binary_data_size": -1}),
            "Unable to parse 'binary_data_size'",
        ),
        (
            request(shape=[1000], data=[1]),
            "JSON input 'A' has a byte_size (4000 bytes) that exceeds",
        ),
        (
            request(shape=[1], data=["x" * 2000], datatype="BYTES"),
            "JSON input 'A' has a byte_size (2004",
        ),
        ({**request(), "outputs": {}}, "Unable to parse 'outputs'"),
        ({**request(), "outputs": [{}]}, "Unable to parse 'name'"),
        (
            {**request(), "outputs": [{"name": "O", "parameters": {"classification": -1}}]},
            "Unable to parse 'classification'",
        ),
        (
            {
                **request(),
                "outputs": [
                    {"name": "O", "parameters": {"shared_memory_region": "r", "classification": 1}}
                ],
            },
            "Output can't set both 'shared_memory_region' and 'classification'",
        ),
        (
            {
                **request(),
                "outputs": [
                    {"name": "O", "parameters": {"shared_memory_region": "r", "binary_data": True}}
                ],
            },
            "Output can't set both 'shared_memory_region' and 'binary_data'",
        ),
    ],
)
def test_bad_requests_are_told_in_tritons_words(document, text):
    assert text in refusal(document)


def shared(**parameters):
    return without("data", parameters={"shared_memory_region": "r", **parameters})


def test_a_region_is_read_without_asking_whether_it_is_there():
    span = {"shared_memory_byte_size": 8, "shared_memory_offset": 16}
    outputs = [{"name": "O", "parameters": {"shared_memory_region": "s", **span}}]
    infer = read({**shared(**span), "outputs": outputs})
    assert infer.sources == [RegionSpan("r", 16, 8)]
    assert infer.binary_size == 0
    assert infer.regions == RegionPlan({0: RegionSpan("r", 16, 8)}, {"O": RegionSpan("s", 16, 8)})
    assert read(shared(shared_memory_byte_size=8)).sources == [RegionSpan("r", 0, 8)]
    assert read(request()).regions is None


def test_requests_that_differ_in_the_region_of_an_output_do_not_share_a_head():
    heads = RequestHeads()
    asked = [
        {"name": "O", "parameters": {"shared_memory_region": name, "shared_memory_byte_size": 8}}
        for name in ("a", "b", "a")
    ]
    found = [
        decode_infer({**request(), "outputs": [entry]}, ("m", ""), heads, 1000).head
        for entry in asked
    ]
    assert found[0] is found[2]
    assert found[0] is not found[1]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "non-existing object member 'shared_memory_byte_size'"),
        ({"shared_memory_byte_size": -1}, "Unable to parse 'shared_memory_byte_size'"),
        (
            {"shared_memory_byte_size": 1, "shared_memory_offset": 1.5},
            "Unable to parse 'shared_memory_offset'",
        ),
        (
            {"shared_memory_byte_size": 1, "shared_memory_region": 1},
            "Unable to parse 'shared_memory_region'",
        ),
    ],
)
def test_a_span_that_can_not_be_read_is_refused(parameters, text):
    assert text in refusal(shared(**parameters))


def test_binary_sizes_must_be_there_and_no_more():
    infer = read(without("data", parameters={"binary_data_size": 8}))
    split_binary(infer, 8)
    with pytest.raises(
        InvalidArgument, match="unexpected size for input 'A', expecting 3 additional bytes"
    ):
        split_binary(infer, 5)
    with pytest.raises(InvalidArgument, match="unexpected additional input data for model 'm'"):
        split_binary(infer, 9)


def config(*inputs, batch=8):
    proto = pb.ModelConfig(max_batch_size=batch)
    for name, kind, dims in inputs:
        proto.input.add(name=name, data_type=kind, dims=dims)
    return proto


def raw(proto, body):
    return decode_raw(proto, ("m", ""), body, RequestHeads())


def test_a_raw_body_is_the_only_input_as_batch_of_one():
    infer, data = raw(config(("A", "TYPE_FP32", [2, -1])), b"\0" * 24)
    assert infer.head.inputs[0].shape == (1, 2, 3)
    assert infer.head.binary_default
    assert data == b"\0" * 24


def test_a_raw_string_gets_its_length():
    infer, data = raw(config(("A", "TYPE_STRING", [1])), b"427")
    assert (infer.head.inputs[0].shape, data) == ((1, 1), b"\x03\0\0\x00427")


def test_a_raw_body_of_a_model_without_batching_has_its_shape():
    infer, _ = raw(config(("A", "TYPE_INT8", [4]), batch=0), b"1234")
    assert infer.head.inputs[0].shape == (4,)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (
            config(("A", "TYPE_FP32", [1]), ("B", "TYPE_FP32", [1])),
            "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model",
        ),
        (config(("A", "TYPE_FP32", [-1, -1])), "there are more than one variable-sized dimension"),
        (
            config(("A", "TYPE_STRING", [2])),
            "For BYTE datatype raw input 'A', the model must have input",
        ),
    ],
)
def test_raw_bodies_need_a_model_they_can_mean(proto, text):
    with pytest.raises(InvalidArgument) as caught:
        raw(proto, b"1234")
    assert text in caught.value.text
