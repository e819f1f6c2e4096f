"""Warm-up: samples are made from the config, run by every instance, and keep a bad model out of service."""

import logging

import numpy as np
import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.tensors import join_bytes
from tests.inference_runtime.core_world import core_world
from tests.onnx_models import add_sub, failing, identity, write_model


def sample(inputs: str, name="s", batch=1, count=0) -> str:
    return f'model_warmup {{ name: "{name}" batch_size: {batch} count: {count} {inputs} }}'


def entry(name: str, data: str, dims="16", kind="TYPE_INT32") -> str:
    return f'inputs {{ key: "{name}" value {{ data_type: {kind} dims: [{dims}] {data} }} }}'


BOTH = entry("INPUT0", "zero_data: true") + entry("INPUT1", "random_data: true")


async def load(path, model, config, name="m"):
    write_model(path, name, model, config=f"max_batch_size: 8 {config}")
    async with core_world(path) as world:
        await world.load(name)
        yield world


async def refusal(path, model, config) -> str:
    write_model(path, "m", model, config=f"max_batch_size: 8 {config}")
    async with core_world(path) as world:
        with pytest.raises(InvalidArgument) as fault:
            await world.load("m")
        assert world.states("m")["1"][0] == "UNAVAILABLE"
    text: str = fault.value.text
    return text


async def test_every_instance_runs_every_sample_and_nothing_is_counted(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "inference_runtime.lifecycle.warm_up")
    config = (
        "instance_group { count: 2 kind: KIND_CPU }"
        + sample(BOTH, "one", count=2)
        + sample(BOTH, "whole batch", batch=8)
        + sample(BOTH, "none", batch=0)
    )
    async for world in load(tmp_path, add_sub(), config):
        lines = [record.getMessage() for record in caplog.records if "is running" in record.message]
        assert len(lines) == 2 * 3
        assert sum("warmup sample 'one' for iteration 1" in line for line in lines) == 2
        [stats] = world.core.model_statistics("m", "1").model_stats
        assert (stats.inference_count, stats.execution_count) == (0, 0)


async def test_a_sample_of_no_rows_is_skipped_whether_the_model_batches_or_not(tmp_path, caplog):
    """It would fail the load if it were run: there is nothing for INPUT1."""
    config = sample(entry("INPUT0", "zero_data: true"), batch=0)
    write_model(tmp_path, "m", add_sub(batching=False), config=config)
    async with core_world(tmp_path) as world:
        await world.load("m")
    assert "skipping batch 0 warmup sample 's' of model 'm'" in caplog.text


async def test_data_from_a_file_reaches_the_model(tmp_path):
    """10 is no index: the run fails only if the file's number is what the model gets."""
    data = entry("INDEX", 'input_data_file: "indices"', "1", "TYPE_INT64")
    directory = tmp_path / "m" / "warmup"
    directory.mkdir(parents=True)
    (directory / "indices").write_bytes(np.array([3], np.int64).tobytes())
    async for world in load(tmp_path, failing(), sample(data)):
        assert world.states("m")["1"][0] == "READY"
    (directory / "indices").write_bytes(np.array([10], np.int64).tobytes())
    async with core_world(tmp_path) as world:
        with pytest.raises(InvalidArgument, match="failed to run warmup sample 's': onnx runtime"):
            await world.load("m")


async def test_strings(tmp_path):
    kind = "TYPE_STRING"
    directory = tmp_path / "m" / "warmup"
    directory.mkdir(parents=True)
    (directory / "words").write_bytes(join_bytes([b"a", b"bc"]))
    config = sample(entry("INPUT0", "random_data: true", "2", kind)) + sample(
        entry("INPUT0", 'input_data_file: "words"', "2", kind), batch=2
    )
    async for world in load(tmp_path, identity("BYTES"), config):
        assert world.states("m")["1"][0] == "READY"


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            sample(entry("INPUT0", "zero_data: true", "-1") + entry("INPUT1", "zero_data: true")),
            "warmup setting expects all variable-size dimensions are specified for input 'INPUT0'",
        ),
        (
            sample(entry("INPUT0", "")),
            "warmup setting expects input 'INPUT0' to have input_data_type set",
        ),
        (
            sample(entry("INPUT0", "zero_data: true", kind="TYPE_INVALID")),
            "warmup setting expects input 'INPUT0' to have data_type set",
        ),
        (
            sample(entry("INPUT0", 'input_data_file: "short"')),
            "warmup setting expects 64 bytes, but the data provided from shortonly has 3 bytes",
        ),
        (
            sample(entry("INPUT0", 'input_data_file: "../../secret"')),
            "warmup data file '../../secret' can not be read",
        ),
        (
            sample(entry("INPUT0", "zero_data: true"), "zero sample"),
            "failed to run warmup sample 'zero sample': input 'INPUT1' is missing in the sample; ",
        ),
    ],
)
async def test_a_sample_that_can_not_be_made_or_run_fails_the_load(tmp_path, config, text):
    directory = tmp_path / "m" / "warmup"
    directory.mkdir(parents=True)
    (directory / "short").write_bytes(b"abc")
    assert text in await refusal(tmp_path, add_sub(), config)
