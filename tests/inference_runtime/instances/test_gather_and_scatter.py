"""Whatever is joined comes apart again: bytes of requests → arrays → bytes of answers."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.backends.request_fault import RequestFault
from inference_runtime.errors import RuntimeFault
from inference_runtime.instances.batch import Batch, Execution
from inference_runtime.instances.runner import BatchRunner
from inference_runtime.routing.validation import check_data, plan_request
from inference_runtime.spec.config_defaults import fill_instance_groups, fill_scheduling
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.datatypes import DATATYPES
from inference_runtime.spec.messages import (
    InferRequest,
    InferResponse,
    RequestedOutput,
    RequestHead,
    TensorHead,
)
from inference_runtime.spec.model_config import ModelConfig, read

TYPES = {row.wire: row for row in DATATYPES}


class Echo:
    """Remembers the arrays it got and gives them back."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.asked: list[str] = []

    def load(self, *_: Any) -> None: ...

    def unload(self) -> None: ...

    def execute(self, inputs: Any, outputs: Any) -> Any:
        self.inputs = list(inputs)
        self.asked = list(outputs)
        return [inputs[int(name[1:])] for name in outputs]


def config_of(*ports: tuple[str, str], max_batch_size: int = 8, more: str = "") -> ModelConfig:
    """Ports as (datatype, rest of the config entry); output i echoes input i."""
    text = f'name: "echo" backend: "identity" max_batch_size: {max_batch_size} {more}\n'
    for kind, letter in (("input", "I"), ("output", "O")):
        for index, (datatype, rest) in enumerate(ports):
            text += (
                f'{kind} {{ name: "{letter}{index}" data_type: {TYPES[datatype].config} {rest} }}\n'
            )
    proto = config_from_text(text)
    fill_scheduling(proto)
    fill_instance_groups(proto, ())
    return read(proto)


def request_of(
    config: ModelConfig, shapes: Sequence[tuple[int, ...]], data: list[Any], **options: Any
) -> InferRequest:
    order = options.get("order", range(len(shapes)))
    head = RequestHead(
        "echo",
        "",
        tuple(
            TensorHead(config.inputs[i].name, config.inputs[i].datatype, shapes[i]) for i in order
        ),
        tuple(RequestedOutput(name) for name in options.get("outputs", ())),
    )
    request = InferRequest(head, [data[i] for i in order], lambda *_: None, None, 0)
    request.plan = plan_request(head, config, "")
    check_data(request, request.plan, utf8=False)
    return request


def execute(config: ModelConfig, *requests: InferRequest, backend: Any = None) -> Execution:
    runner = BatchRunner(config, model_name="echo", version=7)
    rows = sum(request.plan.batch_size for request in requests)
    return runner.run(backend or Echo(), Batch(list(requests), rows))


def responses(execution: Execution) -> list[InferResponse]:
    assert not execution.faulty, execution.answers
    return [answer for answer in execution.answers if isinstance(answer, InferResponse)]


def texts(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, int, list[tuple[int, bytes]]]:
    datatype = draw(st.sampled_from(sorted(TYPES)))
    width = draw(st.sampled_from([1, 3, 200]))
    rows = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    requests = []
    for count in rows:
        size = TYPES[datatype].item_size
        if size == 0:
            elements = draw(
                st.lists(st.binary(max_size=6), min_size=count * width, max_size=count * width)
            )
            requests.append((count, texts(*elements)))
        elif datatype == "BOOL":
            bits = draw(st.lists(st.integers(0, 1), min_size=count * width, max_size=count * width))
            requests.append((count, bytes(bits)))
        else:
            total = count * width * size
            requests.append((count, draw(st.binary(min_size=total, max_size=total))))
    return datatype, width, requests


@settings(max_examples=80, deadline=None)
@given(batches())
def test_every_request_gets_its_own_bytes_back(case):
    datatype, width, sent = case
    config = config_of((datatype, "dims: -1"), (datatype, "dims: -1"), max_batch_size=24)
    requests = [
        request_of(config, [(rows, width), (rows, width)], [data, data]) for rows, data in sent
    ]
    answers = responses(execute(config, *requests))
    for (rows, data), answer in zip(sent, answers, strict=True):
        assert [bytes(part) for part in answer.data] == [data, data]
        assert [o.shape for o in answer.head.outputs] == [(rows, width), (rows, width)]
        assert [o.datatype for o in answer.head.outputs] == [datatype, datatype]
        assert (answer.head.model_name, answer.head.model_version) == ("echo", "7")


def test_any_byte_but_zero_is_true():
    config = config_of(("BOOL", "dims: 3"))
    backend = Echo()
    execution = execute(config, request_of(config, [(1, 3)], [b"\x00\x02\x01"]), backend=backend)
    assert backend.inputs[0].tolist() == [[False, True, True]]
    assert bytes(responses(execution)[0].data[0]) == b"\x00\x01\x01"


def test_inputs_in_another_order_meet_the_right_tensors():
    config = config_of(("INT32", "dims: 1"), ("FP32", "dims: 2"))
    data = [np.array([[5]], "<i4").tobytes(), np.array([[1, 2]], "<f4").tobytes()]
    straight = request_of(config, [(1, 1), (1, 2)], data)
    swapped = request_of(config, [(1, 1), (1, 2)], data, order=(1, 0))
    backend = Echo()
    execution = execute(config, straight, swapped, backend=backend)
    assert backend.inputs[0].tolist() == [[5], [5]]
    for answer in responses(execution):
        assert [bytes(part) for part in answer.data] == data


def test_requests_for_other_outputs_get_only_theirs():
    config = config_of(("INT32", "dims: 1"), ("INT32", "dims: 1"), ("INT32", "dims: 1"))
    ones = [np.array([[value]], "<i4").tobytes() for value in (1, 2, 3)]
    shapes = [(1, 1)] * 3
    backend = Echo()
    first, second = responses(
        execute(
            config,
            request_of(config, shapes, ones, outputs=["O2"]),
            request_of(config, shapes, ones, outputs=["O0", "O2"]),
            backend=backend,
        )
    )
    assert backend.asked == ["O0", "O2"]
    assert [o.name for o in first.head.outputs] == ["O2"]
    assert [bytes(part) for part in first.data] == [ones[2]]
    assert [bytes(part) for part in second.data] == [ones[0], ones[2]]


def test_a_reshape_is_what_the_backend_sees_and_the_client_does_not():
    config = config_of(("FP32", "dims: [ 2, -1 ] reshape { shape: [ -1, 1, 2 ] }"))
    request = request_of(config, [(1, 2, 3)], [bytes(24)])
    backend = Echo()
    (answer, _) = responses(execute(config, request, request, backend=backend))
    assert backend.inputs[0].shape == (2, 3, 1, 2)
    assert answer.head.outputs[0].shape == (1, 2, 3)


def test_optional_inputs_that_are_left_out_are_none():
    config = config_of(("FP32", "dims: 1"), ("FP32", "dims: 1"))
    text = config.proto
    text.input[1].optional = True
    config = read(text)
    head = RequestHead("echo", "", (TensorHead("I0", "FP32", (1, 1)),), (RequestedOutput("O0"),))
    request = InferRequest(head, [bytes(4)], lambda *_: None, None, 0)
    request.plan = plan_request(head, config, "")
    for count in (1, 2):
        backend = Echo()
        execute(config, *[request] * count, backend=backend)
        assert backend.inputs[1] is None


def test_a_model_without_a_batch_dimension_keeps_its_shape():
    config = config_of(("INT64", "dims: [ 2, 2 ]"), max_batch_size=0)
    data = np.arange(4, dtype="<i8").tobytes()
    (answer,) = responses(execute(config, request_of(config, [(2, 2)], [data])))
    assert answer.head.outputs[0].shape == (2, 2)
    assert bytes(answer.data[0]) == data


def test_empty_tensors_carry_no_bytes():
    config = config_of(("FP32", "dims: -1"), ("BYTES", "dims: -1"))
    request = request_of(config, [(2, 0), (2, 0)], [b"", b""])
    for answer in responses(execute(config, request, request)):
        assert [bytes(part) for part in answer.data] == [b"", b""]
        assert answer.head.outputs[0].shape == (2, 0)


def test_bytes_at_an_odd_address_reach_the_backend_aligned():
    config = config_of(("FP64", "dims: 2"))
    body = b"x" + np.array([[1.0, 2.0]], "<f8").tobytes()
    backend = Echo()
    execute(config, request_of(config, [(1, 2)], [memoryview(body)[1:]]), backend=backend)
    assert backend.inputs[0].flags.aligned
    assert backend.inputs[0].tolist() == [[1.0, 2.0]]


def test_answers_of_one_shape_share_their_head():
    config = config_of(("FP32", "dims: 1"))
    runner = BatchRunner(config, model_name="echo", version=7)
    requests = [request_of(config, [(1, 1)], [bytes(4)]) for _ in range(3)]
    first = responses(runner.run(Echo(), Batch(requests, 3)))
    (second,) = responses(runner.run(Echo(), Batch(requests[:1], 1)))
    assert {id(answer.head) for answer in first} == {id(second.head)}


def test_endless_shapes_do_not_fill_the_memory_with_heads():
    config = config_of(("INT8", "dims: -1"))
    runner = BatchRunner(config, model_name="echo", version=7)
    heads = set()
    for length in range(3000):
        request = request_of(config, [(1, length)], [bytes(length)])
        (answer,) = responses(runner.run(Echo(), Batch([request], 1)))
        heads.add(answer.head)
        assert answer.head.outputs[0].shape == (1, length)
    assert len(heads) == 3000


class Wrong(Echo):
    def __init__(self, *outputs: Any) -> None:
        super().__init__()
        self.outputs = outputs

    def execute(self, inputs: Any, outputs: Any) -> Any:
        return list(self.outputs)


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ([], "gave 0 outputs where 1 were asked for"),
        ([np.zeros((2, 1), "<f8")], "has data-type float64, but the config says FP32"),
        ([np.zeros((3, 1), "<f4")], "has shape [3,1] for a batch of 2: its first dimension"),
        ([np.float32(1)], "has shape [] for a batch of 2"),
    ],
)
def test_a_backend_that_answers_wrongly_fails_its_batch(outputs, text):
    config = config_of(("FP32", "dims: 1"))
    request = request_of(config, [(1, 1)], [bytes(4)])
    execution = execute(config, request, request, backend=Wrong(*outputs))
    assert execution.faulty
    for answer in execution.answers:
        assert isinstance(answer, RuntimeFault)
        assert text in answer.text


def test_a_strided_output_is_written_in_row_order():
    config = config_of(("FP32", "dims: [ 2, 200 ]"))
    request = request_of(config, [(1, 2, 200)], [bytes(1600)])
    array = np.arange(800, dtype="<f4").reshape(2, 200, 2).transpose(0, 2, 1)
    first, second = responses(execute(config, request, request, backend=Wrong(array)))
    assert bytes(first.data[0]) + bytes(second.data[0]) == array.tobytes()


def test_the_phases_of_an_execution_are_timed_in_order():
    config = config_of(("FP32", "dims: 1"))
    times = execute(config, request_of(config, [(1, 1)], [bytes(4)])).times
    assert times.started_ns < times.gathered_ns < times.inferred_ns < times.finished_ns


class NoMinusOne(Echo):
    """Can not say which of the requests has the number it does not take."""

    def execute(self, inputs: Any, outputs: Any) -> Any:
        if (inputs[0] == -1).any():
            raise RequestFault("not a number for me")
        return super().execute(inputs, outputs)


def test_a_fault_of_one_request_is_not_its_neighbours():
    config = config_of(("INT32", "dims: 1"))
    requests = [
        request_of(config, [(len(values), 1)], [np.array(values, "<i4").tobytes()])
        for values in ([1, 2], [-1], [3])
    ]
    execution = execute(config, *requests, backend=NoMinusOne())
    assert execution.faulty
    first, second, third = execution.answers
    assert isinstance(second, RequestFault)
    assert isinstance(first, InferResponse)
    assert isinstance(third, InferResponse)
    assert np.frombuffer(first.data[0], "<i4").tolist() == [1, 2]
    assert np.frombuffer(third.data[0], "<i4").tolist() == [3]
