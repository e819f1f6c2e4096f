"""Requests of different shapes in one batch, through ONNX Runtime."""

import asyncio
import re
from dataclasses import replace

import numpy as np
import pytest

from inference_runtime.errors import InvalidArgument, RuntimeFault
from inference_runtime.instances.ragged import batch_input
from inference_runtime.spec.messages import InferResponse
from inference_runtime.spec.ragged import BatchInput, BatchInputKind
from tests.inference_runtime.core_world import core_world, data_of, head_of
from tests.onnx_models import ragged_sums, write_model

CONFIG = """
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true }
output { name: "SUM" data_type: TYPE_FP32 dims: [1] }
output { name: "DOUBLE" data_type: TYPE_FP32 dims: [-1] }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "ENDS"
  data_type: TYPE_INT32 source_input: "X" }
batch_output { target_name: "DOUBLE" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }
dynamic_batching { max_queue_delay_microseconds: 2000000 preferred_batch_size: [3] }
instance_group { count: 1 kind: KIND_CPU }
"""


@pytest.fixture
async def world(tmp_path):
    write_model(tmp_path, "sums", ragged_sums(), config=CONFIG)
    async with core_world(tmp_path) as world:
        await world.load("sums")
        yield world


def ask(world, *values: float):
    inputs = {"X": np.array([values], np.float32)}
    return world.submit(head_of("sums", inputs), data_of(inputs))[1]


async def test_requests_of_different_lengths_share_a_batch(world):
    futures = [ask(world, 1, 2, 3), ask(world, 10), ask(world, 4, 5)]
    answers = await asyncio.gather(*futures)
    found = []
    for answer in answers:
        assert isinstance(answer, InferResponse), answer
        found.append([np.frombuffer(data, np.float32).tolist() for data in answer.data])
        assert answer.head.outputs[0].shape == (1, 1)
    assert found == [[[6], [2, 4, 6]], [[10], [20]], [[9], [8, 10]]]
    assert [answer.head.outputs[1].shape for answer in answers] == [(1, 3), (1, 1), (1, 2)]
    [stats] = world.core.model_statistics("sums", "1").model_stats
    assert (stats.execution_count, stats.inference_count) == (1, 3)


def step(world, id_: int, *values: float, start=False):
    inputs = {"X": np.array([values], np.float32)}
    head = replace(head_of("sums", inputs), sequence_id=id_, sequence_start=start)
    return world.submit(head, data_of(inputs))[1]


def found_in(answer) -> list[list[float]]:
    assert isinstance(answer, InferResponse), answer
    return [np.frombuffer(data, np.float32).tolist() for data in answer.data]


@pytest.mark.parametrize(
    ("strategy", "executions"),
    [
        ("oldest { preferred_batch_size: [2] max_queue_delay_microseconds: 2000000 }", 2),
        ("direct { minimum_slot_utilization: 1.0 max_queue_delay_microseconds: 200000 }", 2),
    ],
)
async def test_steps_of_sequences_share_a_batch_too(tmp_path, strategy, executions):
    batching = re.search(r"dynamic_batching.*\n", CONFIG)
    config = CONFIG.replace(batching[0], f"sequence_batching {{ {strategy} }}\n")
    write_model(tmp_path, "sums", ragged_sums(), config=config)
    async with core_world(tmp_path) as world:
        await world.load("sums")
        first = [step(world, 1, 1, 2, 3, start=True), step(world, 2, 10, start=True)]
        assert list(map(found_in, await asyncio.gather(*first))) == [
            [[6], [2, 4, 6]],
            [[10], [20]],
        ]
        # Of the direct strategy, the row of the first sequence holds a filler now.
        assert found_in(await step(world, 2, 4, 5)) == [[9], [8, 10]]
        [stats] = world.core.model_statistics("sums", "1").model_stats
        assert (stats.execution_count, stats.inference_count) == (executions, 3)


async def test_a_sample_needs_no_tensors_that_describe_its_batch(tmp_path):
    sample = (
        'model_warmup { name: "s" batch_size: 2 inputs { key: "X" value '
        "{ data_type: TYPE_FP32 dims: [3] zero_data: true } } }"
    )
    write_model(tmp_path, "sums", ragged_sums(), config=CONFIG + sample)
    async with core_world(tmp_path) as world:
        await world.load("sums")


async def test_a_model_that_sees_requests_one_by_one_has_no_batch_to_describe(tmp_path):
    (tmp_path / "sums/1").mkdir(parents=True)
    (tmp_path / "sums/config.pbtxt").write_text('backend: "repeat" ' + CONFIG)
    async with core_world(tmp_path) as world:
        with pytest.raises(InvalidArgument) as fault:
            await world.load("sums")
    assert (
        "batch inputs and batch outputs are only supported for custom platform and TensorRT platform "
        "for sums"
    ) in fault.value.text


async def test_the_servers_own_inputs_are_not_the_clients(world):
    metadata = world.core.model_metadata("sums", "1")
    assert [entry.name for entry in metadata.inputs] == ["X"]
    inputs = {"X": np.ones((1, 2), np.float32), "ENDS": np.zeros((1, 1), np.int32)}
    answer = await world.answer(head_of("sums", inputs), data_of(inputs))
    assert isinstance(answer, RuntimeFault)
    assert "expected 1 inputs but got 2 inputs" in answer.text


SHAPES = [(1, 2), (2, 3)]  # one request of a row, one of two


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BATCH_ELEMENT_COUNT", [2, 6]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", [2, 8]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 2, 8]),
        ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [0] * 6),
        ("BATCH_ITEM_SHAPE", [[2], [3], [3]]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [2, 3, 3]),
    ],
)
@pytest.mark.parametrize(("datatype", "dtype"), [("INT32", np.int32), ("FP32", np.float32)])
def test_what_describes_a_batch(kind, values, datatype, dtype):
    made = batch_input(BatchInput(BatchInputKind[kind], ("T",), datatype, "X"), SHAPES)
    assert made.dtype == dtype
    assert made.tolist() == values


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BATCH_ELEMENT_COUNT", [0, 0]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 0, 0]),
        ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", []),
        ("BATCH_ITEM_SHAPE_FLATTEN", []),
    ],
)
def test_an_optional_input_that_is_left_out_has_no_elements(kind, values):
    absent = [(), ()]
    made = batch_input(BatchInput(BatchInputKind[kind], ("T",), "INT32", "X"), absent)
    assert made.tolist() == values


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            ('source_input: "X" }\nbatch_output', "}\nbatch_output"),
            "batch input kind 'BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO' expects 1 source input, "
            "got 0 for sums",
        ),
        (
            ('source_input: "X" }\nbatch_output', 'source_input: "Y" }\nbatch_output'),
            "unknown source input name 'Y' for sums",
        ),
        (
            ("TYPE_INT32", "TYPE_INT64"),
            "batch input data type must be TYPE_INT32 or TYPE_FP32 for sums",
        ),
        (
            ('SHAPE source_input: "X"', 'SHAPE source_input: "X" source_input: "X"'),
            "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 2 for sums",
        ),
        (('target_name: "DOUBLE"', 'target_name: "Z"'), "unknown target output name 'Z' for sums"),
        (
            ('target_name: "DOUBLE"', 'target_name: "DOUBLE" target_name: "DOUBLE"'),
            "target output name 'DOUBLE' can only be specified once for sums",
        ),
    ],
)
async def test_what_is_wrong_with_the_config(tmp_path, change, text):
    assert change[0] in CONFIG
    write_model(tmp_path, "sums", ragged_sums(), config=CONFIG.replace(*change))
    async with core_world(tmp_path) as world:
        with pytest.raises(InvalidArgument) as fault:
            await world.load("sums")
    assert text in fault.value.text
