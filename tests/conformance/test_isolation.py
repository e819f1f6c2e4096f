"""`ISOLATION: process`: a backend of arrays in a process of its own answers the same, and takes nothing with it."""

import os
import signal
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.clients import Client
from tests.conformance.python_world import PythonWorld, eventually
from tests.onnx_models import add_sub, failing, identity, write_model

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

ISOLATED = 'parameters { key: "ISOLATION" value { string_value: "process" } }'


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config=f"max_batch_size: 8 {ISOLATED}")
    write_model(path, "failing", failing(), config=ISOLATED)
    write_model(path, "strings", identity("BYTES"), config=ISOLATED)
    write_model(path, "halves", identity("BF16"), config=ISOLATED)
    write_model(path, "wide", identity("FP32"), config=ISOLATED)
    return path


@pytest.fixture(scope="module")
def world(server, repository):
    yield PythonWorld(server, repository)
    assert server.terminate() == 0


def processes(world):
    return [
        pid
        for pid in world.children()
        if "isolation.host" in Path(f"/proc/{pid}/cmdline").read_text()
    ]


def sums(client):
    config = client.names(client.get_model_metadata("simple"))
    names = [entry["name"] for entry in config["inputs"]]
    shape = (1, *[int(size) for size in config["inputs"][0]["shape"][1:]])
    datatype = {"INT32": np.int32, "FP32": np.float32}[config["inputs"][0]["datatype"]]
    array = np.arange(np.prod(shape), dtype=datatype).reshape(shape)
    result = client.ask("simple", dict.fromkeys(names, array))
    return array, [result.as_numpy(entry["name"]) for entry in config["outputs"]]


def test_answers_are_those_of_the_backend(client):
    array, outputs = sums(client)
    assert any((output == 2 * array).all() for output in outputs)
    texts = np.array([["a", "é", ""]], dtype=np.object_)
    back = client.ask("strings", {"INPUT0": texts}).as_numpy("OUTPUT0")
    assert [each.decode() for each in back.ravel()] == ["a", "é", ""]
    half = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    back = client.ask("halves", {"INPUT0": half}, datatype="BF16").as_numpy("OUTPUT0")
    assert (np.asarray(back, np.float32) == np.asarray(half, np.float32)).all()
    large = np.random.default_rng(1).random((1, 200_000), np.float32)
    assert (client.ask("wide", {"INPUT0": large}).as_numpy("OUTPUT0") == large).all()


def test_a_failed_execution_has_the_backends_text(world):
    tensor = {"name": "INDEX", "datatype": "INT64", "shape": [1, 1], "data": [99]}
    status, answer = world.server.call("POST", "/v2/models/failing/infer", {"inputs": [tensor]})
    assert status == 500
    assert answer["error"].startswith("onnx runtime error ")
    tensor["data"] = [3]
    status, answer = world.server.call("POST", "/v2/models/failing/infer", {"inputs": [tensor]})
    assert (status, answer["outputs"][0]["data"]) == (200, [30])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV], ids=lambda how: how.name)
def test_killed_processes_are_replaced(world, how):
    killed = set(processes(world))
    assert len(killed) == 10  # two instances of each model, none of which shares a copy
    for pid in killed:
        os.kill(pid, how)
    eventually(lambda: not killed & set(world.children()))
    models = ("simple", "failing", "strings", "halves", "wide")
    eventually(
        lambda: len(processes(world)) == 10 and all(world.ready(name) == 200 for name in models)
    )
    made = Client(world.server, "http")
    array, outputs = sums(made)
    assert any((output == 2 * array).all() for output in outputs)
    made.close()
    assert 'nv_python_stub_restarts_total{instance="simple_0",model="simple"' in world.metrics()


def test_a_file_that_is_no_model_is_refused_with_its_text(world):
    directory = world.repository / "broken"
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "model.onnx").write_bytes(b"no model")
    (directory / "config.pbtxt").write_text(f'backend: "onnxruntime" {ISOLATED}')
    assert "protobuf parsing failed" in world.refusal("broken").lower()


def test_only_what_can_be_isolated_is(world):
    for name, backend, value in (("word", "identity", "maybe"), ("flow", "repeat", "process")):
        directory = world.repository / name
        (directory / "1").mkdir(parents=True)
        parameter = f'parameters {{ key: "ISOLATION" value {{ string_value: "{value}" }} }}'
        (directory / "config.pbtxt").write_text(f'backend: "{backend}" {parameter}')
    assert "must be 'none' or 'process', got 'maybe'" in world.refusal("word")
    assert "backend 'repeat' can not be isolated" in world.refusal("flow")
