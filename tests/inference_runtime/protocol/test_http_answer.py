import json
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import http_answer
from inference_runtime.spec.messages import (
    InferResponse,
    RequestedOutput,
    RequestHead,
    ResponseHead,
    TensorHead,
)

VERSION = SimpleNamespace(labels={"O": ("cat", "dog")}, config=SimpleNamespace(batching=True))


@dataclass
class Case:
    datatype: str = "INT32"
    shape: tuple[int, ...] = (1, 2)
    data: bytes = field(default_factory=lambda: np.array([3, 4], np.int32).tobytes())

    def encode(self, *outputs, id_="", binary_default=False):
        request = RequestHead("m", "", (), tuple(outputs), binary_default=binary_default)
        head = ResponseHead("m", "2", (TensorHead("O", self.datatype, self.shape),))
        return http_answer.encode(request, id_, InferResponse(head, [self.data]), VERSION)


def test_keys_come_in_their_order():
    answer = Case().encode(id_="42")
    assert answer.json == (
        b'{"id":"42","model_name":"m","model_version":"2",'
        b'"outputs":[{"name":"O","datatype":"INT32","shape":[1,2],"data":[3,4]}]}'
    )
    assert answer.json_size == 0


def test_without_id_there_is_no_key():
    assert "id" not in json.loads(Case().encode().json)


def test_binary_outputs_follow_the_json():
    answer = Case().encode(RequestedOutput("O", binary=True))
    assert json.loads(answer.json)["outputs"] == [
        {"name": "O", "datatype": "INT32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    ]
    assert (answer.json_size, answer.binary_size) == (len(answer.json), 8)


def test_the_default_for_all_outputs_counts_only_when_none_is_listed():
    assert Case().encode(binary_default=True).binary_size == 8
    assert Case().encode(RequestedOutput("O", binary=False), binary_default=True).binary_size == 0


def test_empty_binary_outputs_make_a_plain_answer():
    answer = Case(shape=(1, 0), data=b"").encode(binary_default=True)
    assert answer.json_size == 0
    assert b'"binary_data_size":0' in answer.json


def test_outputs_that_were_not_asked_for_are_left_out():
    assert json.loads(Case().encode(RequestedOutput("P")).json)["outputs"] == []


def test_classes_replace_the_output():
    answer = Case().encode(RequestedOutput("O", class_count=1, binary=False))
    assert json.loads(answer.json)["outputs"] == [
        {"name": "O", "datatype": "BYTES", "shape": [1, 1], "data": ["4:1:dog"]}
    ]


def test_half_precision_as_json_is_refused():
    case = Case(datatype="FP16", data=b"\0\0\0\0")
    assert case.encode(RequestedOutput("O")).binary_size == 4
    with pytest.raises(InvalidArgument, match="sending FP16 data via JSON is not supported"):
        case.encode()


def test_model_parameters_are_part_of_the_answer():
    head = ResponseHead("m", "1", (), {"a": 1, "b": "x"})
    answer = http_answer.encode(RequestHead("m", "", ()), "", InferResponse(head, []), VERSION)
    assert json.loads(answer.json)["parameters"] == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("datatype", "outputs", "binary_default", "plain"),
    [
        ("INT32", (), True, True),
        ("INT32", (), False, False),
        ("BYTES", (), True, False),
        ("INT32", (RequestedOutput("O"),), False, True),
        ("INT32", (RequestedOutput("O", binary=False),), False, False),
        ("INT32", (RequestedOutput("O", class_count=1),), False, False),
        ("INT32", (RequestedOutput("P"),), False, False),
    ],
)
def test_an_answer_is_plain_when_only_its_data_varies(datatype, outputs, binary_default, plain):
    request = RequestHead("m", "", (), outputs, binary_default=binary_default)
    head = ResponseHead("m", "1", (TensorHead("O", datatype, (1,)),))
    assert http_answer.is_plain(request, head) is plain
