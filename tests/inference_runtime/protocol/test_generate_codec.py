"""The generate extension's documents, read and written."""

import numpy as np
import orjson
import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import generate_codec
from inference_runtime.protocol.generate_codec import GenerateInput
from inference_runtime.spec.messages import InferResponse, ResponseHead, TensorHead
from inference_runtime.spec.tensors import join_bytes

INPUTS = {
    port.name: port
    for port in (
        GenerateInput("PROMPT", "BYTES", (-1, 1)),
        GenerateInput("N", "INT32", (-1, 16)),
        GenerateInput("FREE", "FP32", (-1, -1)),
        GenerateInput("FIXED", "FP32", (2, 2)),
        GenerateInput("HALF", "FP16", (-1,)),
    )
}


def decode(body: str | bytes, limit=1 << 20, inputs=INPUTS):
    data = body.encode() if isinstance(body, str) else body
    return generate_codec.decode(data, model_name="m", version="1", inputs=inputs, limit=limit)


def refusal(body, **more) -> str:
    with pytest.raises(InvalidArgument) as fault:
        decode(body, **more)
    return fault.value.text


def test_inputs_parameters_and_the_id():
    asked = decode('{"PROMPT":"a b","id":"7","top":3,"t":0.5,"on":true,"s":"x"}')
    assert asked.id == "7"
    assert [(t.name, t.datatype, t.shape) for t in asked.head.inputs] == [
        ("PROMPT", "BYTES", (1, 1))
    ]
    assert asked.data == [join_bytes([b"a b"])]
    assert asked.head.parameters == {"top": 3, "t": 0.5, "on": True, "s": "x"}
    assert (asked.head.model_name, asked.head.version) == ("m", "1")


@pytest.mark.parametrize(
    ("name", "count", "shape"),
    [
        ("N", 32, (2, 16)),
        ("N", 16, (1, 16)),
        ("N", 0, (0, 16)),
        ("FREE", 5, (1, 5)),
        ("FREE", 0, (1, 0)),
        ("FIXED", 4, (2, 2)),
    ],
)
def test_the_shape_follows_from_the_metadata(name, count, shape):
    asked = decode(orjson.dumps({name: [1] * count}))
    assert asked.head.inputs[0].shape == shape


@pytest.mark.parametrize(("name", "count"), [("N", 15), ("FIXED", 3), ("FIXED", 8)])
def test_what_does_not_fit_the_metadata_is_refused(name, count):
    text = refusal(orjson.dumps({name: [1] * count}))
    assert text == f"The schema can not convert input '{name}' to tensor with proper shape"


@pytest.mark.parametrize(
    "value", [[[1], [2]], [[1, 2], []], [[1, 2, 3, 4]], [1, [2, 3, 4]], [[]], [[[1]]]]
)
def test_an_input_is_a_scalar_or_a_flat_list(value):
    text = refusal(orjson.dumps({"FREE": value}))
    assert text == (
        "The schema can not convert input 'FREE' to tensor with proper shape: it takes a scalar or a "
        "one-dimensional list, not a nested one"
    )


def test_nested_parameters_are_read_like_top_level_ones():
    asked = decode('{"parameters":{"PROMPT":"x","k":1},"after":2}')
    assert asked.head.inputs[0].name == "PROMPT"
    assert asked.head.parameters == {"k": 1, "after": 2}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"PROMPT":"x","PROMPT":"y"}', "input 'PROMPT' already exists in request"),
        ('{"parameters":1}', "Expected JSON object for keyword: 'parameters'"),
        (
            '{"parameters":{"nested":{}}}',
            "Converting keyword: 'parameters': parameter 'nested' has invalid type. It should be "
            "either 'int', 'bool', or 'string'.",
        ),
        (
            '{"PARAMS":{}}',
            "parameter 'PARAMS' has invalid type. It should be either 'int', 'bool', or 'string'.",
        ),
        ('{"PROMPT":123}', "Unable to parse 'data': attempt to access JSON non-string as string"),
        (
            '{"N":"x","PROMPT":1}',
            "The schema can not convert input 'N' to tensor with proper shape",
        ),
        ('{"id":5}', "Unable to parse 'id': attempt to access JSON non-string as string"),
        ("[]", "attempt to access JSON non-object as object"),
        ('{"x":99999999999999999999}', "Unable to parse 'x': attempt to access JSON "),
        ('{"HALF":[1.0]}', "receiving FP16 data via JSON is not supported"),
        ("{", "failed to parse the request JSON buffer: "),
        ("", "failed to parse the request JSON buffer: "),
        (b"\xff{}", "failed to parse the request JSON buffer: "),
        ("[" * 100_000, "failed to parse the request JSON buffer: "),
        ('{"a":' * 100_000, "failed to parse the request JSON buffer: "),
    ],
)
def test_the_first_thing_that_is_wrong_is_told(body, text):
    assert refusal(body).startswith(text)


def test_a_model_whose_input_is_called_parameters_takes_no_nested_ones():
    inputs = {"parameters": GenerateInput("parameters", "BYTES", (1,))}
    text = refusal('{"parameters":{}}', inputs=inputs)
    assert text == "Keyword 'parameters' for nested schema also given as input tensor name"


def test_all_inputs_together_are_bounded():
    text = refusal('{"FREE":[1,2,3],"FIXED":[1,2,3,4]}', limit=20)
    assert text == (
        "request size of 28 bytes with input 'FIXED' of size 16 bytes exceeds the maximum allowed "
        "input size of 20 bytes. Use --http-max-input-size to increase the limit."
    )


def answer(*outputs: tuple[str, str, tuple[int, ...], bytes], **parameters) -> InferResponse:
    heads = tuple(TensorHead(name, datatype, shape) for name, datatype, shape, _ in outputs)
    return InferResponse(ResponseHead("m", "3", heads, parameters), [data for *_, data in outputs])


def test_one_element_is_a_scalar_and_several_are_a_flat_list():
    response = answer(
        ("TEXT", "BYTES", (1, 1), join_bytes([b"hi"])),
        ("N", "INT32", (2, 2), np.arange(4, dtype=np.int32).tobytes()),
        ("EMPTY", "FP32", (0,), b""),
        ("NAN", "FP32", (1,), np.array([np.nan], np.float32).tobytes()),
        final=True,
    )
    text = generate_codec.encode(response, "id")
    assert text == (
        b'{"id":"id","model_name":"m","model_version":"3","final":true,"TEXT":"hi",'
        b'"N":[0,1,2,3],"EMPTY":[],"NAN":NaN}'
    )
    assert generate_codec.encode(answer(), "") == b'{"model_name":"m","model_version":"3"}'


def test_an_event_is_one_line_of_data_and_an_empty_one():
    assert generate_codec.event(b"{}") == b"data: {}\n\n"
