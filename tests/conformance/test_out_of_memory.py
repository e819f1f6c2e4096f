"""The kernel kills a model's process because memory has run out: that costs its request, and nobody else anything."""

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conformance.memory_group import memory_group
from tests.conformance.python_models import ONE_TO_ONE
from tests.conformance.python_world import PythonWorld, eventually, tensor
from tests.conformance.runtime_process import RuntimeProcess, runtime
from tests.onnx_models import add_constant, write_model

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

MIB = 1 << 20
LIMIT_BYTES = 64 * MIB
TOO_MUCH = 256  # MiB
TRUTH_SECONDS = 1.0
ENDING = (
    "It ended with signal 9 (Killed). If nobody killed it, it ran out of memory (the kernel's log tells) "
    "or of an RLIMIT_CPU: allow it more, or run fewer instances or smaller batches."
)
HUNGRY = """
def execute(self, requests):
    size = int(requests[0].inputs()[0].as_numpy()[0])
    full = np.ones(size << 20, np.uint8)
    value = pb_utils.Tensor("OUT", np.array([len(full) >> 20], np.int32))
    return [pb_utils.InferenceResponse([value]) for _ in requests]
"""
CALM = """
def execute(self, requests):
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())])
        for request in requests
    ]
"""
ALONE = "instance_group { kind: KIND_CPU count: 1 }"
ISOLATED = f'parameters {{ key: "ISOLATION" value {{ string_value: "process" }} }} {ALONE}'


def hungry_graph():
    """OUT = IN, by way of IN MiB of ones."""
    constants = [
        numpy_helper.from_array(np.array([MIB // 4], np.int32), "per_mib"),
        numpy_helper.from_array(np.array([MIB // 4], np.float32), "per_mib_float"),
    ]
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    nodes = [
        helper.make_node("Mul", ["IN", "per_mib"], ["count"]),
        helper.make_node("Cast", ["count"], ["shape"], to=TensorProto.INT64),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=one),
        helper.make_node("ReduceSum", ["ones"], ["sum"], keepdims=1),
        helper.make_node("Div", ["sum", "per_mib_float"], ["mibs"]),
        helper.make_node("Cast", ["mibs"], ["OUT"], to=TensorProto.INT32),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.INT32, [1]) for name in ("IN", "OUT")]
    graph = helper.make_graph(nodes, "hungry", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def large_graph():
    """OUT = IN + 192 MiB of weights."""
    weights = numpy_helper.from_array(np.ones(48 * MIB, np.float32), "weights")
    node = helper.make_node("Add", ["IN", "weights"], ["OUT"])
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [48 * MIB]) for name in ("IN", "OUT")
    ]
    graph = helper.make_graph([node], "large", ports[:1], ports[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@contextmanager
def in_thread(work: Callable[[], None]) -> Iterator[None]:
    """Does it over and over meanwhile."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass
class Readiness:
    """What the server says of a model and of itself, and when."""

    server: RuntimeProcess
    began: list[float] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)
    model: list[bool] = field(default_factory=list)

    def ask(self) -> None:
        began = time.monotonic()
        ready = self.server.call("GET", "/v2/models/hungry/ready")[0] == 200
        self.began.append(began)
        self.heard.append(time.monotonic())
        self.model.append(ready)

    def first(self, ready: bool, after: float) -> float:
        """When an answer of this kind was first heard, of those asked for after that time."""
        answers = zip(self.began, self.heard, self.model, strict=True)
        return next(heard for began, heard, said in answers if said is ready and began >= after)


@dataclass
class Bystander:
    """A client of another model."""

    ask: Callable[[], Any]
    expected: Any
    count: int = 0
    wrong: list[Any] = field(default_factory=list)

    def work(self) -> None:
        answer = self.ask()
        self.count += 1
        if answer != self.expected:
            self.wrong.append(answer)


@pytest.fixture
def world(tmp_path):
    repository = tmp_path / "repository"
    write_model(repository, "sums", add_constant(5.0, (1,)))
    with runtime(repository, tmp_path / "log", "--load-model=sums") as server:
        world = PythonWorld(server, repository)
        world.serve("calm", CALM)
        yield world
        assert server.terminate() == 0


def load(world: PythonWorld) -> int:
    """Of the model that wants too much; its process."""
    before = set(world.children())
    status, answer = world.load("hungry")
    assert status == 200, answer
    [pid] = set(world.children()) - before
    return pid


def reason(world: PythonWorld) -> str:
    """What the index says of the model."""
    _, index = world.server.call("POST", "/v2/repository/index", {})
    [entry] = [entry for entry in index if entry["name"] == "hungry"]
    return entry.get("reason", "")


def death_of(pid: int) -> Callable[[], float]:
    """When it came."""
    died: list[float] = []
    watched = os.pidfd_open(pid)

    def watch() -> None:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        if poll.poll(30_000):
            died.append(time.monotonic())
        os.close(watched)

    thread = threading.Thread(target=watch)
    thread.start()

    def when() -> float:
        thread.join()
        return died[0]

    return when


def write_hungry(world, kind):
    if kind == "python":
        world.write("hungry", HUNGRY, f"{ONE_TO_ONE} {ALONE}")
    else:
        write_model(world.repository, "hungry", hungry_graph(), config=ISOLATED)


@pytest.mark.parametrize("kind", ["python", "isolated"])
def test_the_process_that_the_kernel_kills_costs_its_own_request_only(world, kind):
    write_hungry(world, kind)
    pid = load(world)
    sums = {"inputs": [tensor("INPUT0", [[1.0]], "FP32")]}
    bystanders = [
        Bystander(lambda: world.infer("calm", 7)[1]["outputs"][0]["data"], [7]),
        Bystander(
            lambda: world.server.call("POST", "/v2/models/sums/infer", sums)[1]["outputs"][0][
                "data"
            ],
            [6.0],
        ),
    ]
    readiness = Readiness(world.server)
    # A group of its own, so that the kernel has nobody else to choose.
    with memory_group(LIMIT_BYTES) as group:
        group.take(pid)
        assert world.out("hungry", 1) == 1
        death = death_of(pid)
        with in_thread(bystanders[0].work), in_thread(bystanders[1].work), in_thread(readiness.ask):
            status, answer = world.infer("hungry", TOO_MUCH)
            died = death()
            assert (status, answer["error"]) == (
                500,
                f"Stub process 'hungry_0_0' is not healthy. {ENDING}",
            )
            eventually(lambda: any(not said for said in readiness.model))
            assert reason(world) == answer["error"]
            seen = [bystander.count for bystander in bystanders]
            eventually(lambda: readiness.model[-1])
            assert reason(world) == ""
            assert world.out("hungry", TOO_MUCH) == TOO_MUCH  # the replacement is in no group
            served = [bystander.count for bystander in bystanders]
        assert group.kills() == 1
    assert all(after > before for before, after in zip(seen, served, strict=True))
    assert [bystander.wrong for bystander in bystanders] == [[], []]
    refused = readiness.first(False, 0.0)
    assert refused - died < TRUTH_SECONDS
    assert readiness.first(True, 0.0) < died
    back = readiness.model.index(True, readiness.model.index(False))
    assert all(readiness.model[back:])
    tell_the_operator(world, pid)


@pytest.mark.parametrize("kind", ["python", "isolated"])
def test_the_kernel_chooses_the_model_and_not_the_larger_server(world, kind):
    write_hungry(world, kind)
    # Weights, in the server: more than the model will have when memory runs out.
    write_model(world.repository, "large", large_graph())
    assert world.load("large")[0] == 200
    pid = load(world)
    with memory_group(160 * MIB) as group:
        group.take(world.server.process.pid)
        group.take(pid)
        assert world.infer("hungry", TOO_MUCH)[0] == 500
        assert group.kills() >= 1
        assert world.server.process.poll() is None
        assert world.infer("calm", 7)[1]["outputs"][0]["data"] == [7]
        # Whoever is to be removed may not stay in the group.
        assert world.server.terminate() == 0


def tell_the_operator(world: PythonWorld, pid: int) -> None:
    log = world.server.log
    assert f"'hungry_0_0' (process {pid}): {ENDING}" in log
    assert "Stub process 'hungry_0_0' is unhealthy and it will be restarted." in log
    restarts = 'nv_python_stub_restarts_total{instance="hungry_0_0",model="hungry",version="1"} 1'
    assert restarts in world.metrics()
    assert pid not in world.children()


def test_readiness_tells_of_the_death_and_of_the_replacement_within_a_second(world, tmp_path):
    loaded = tmp_path / "loaded"
    says_when = f"""
def initialize(self, args):
    time.sleep(1.5)
    with open({str(loaded)!r}, "a") as file:
        print(time.monotonic(), file=file)
"""
    world.write("hungry", says_when + HUNGRY)
    pid = load(world)
    readiness = Readiness(world.server)
    with memory_group(LIMIT_BYTES) as group:
        group.take(pid)
        death = death_of(pid)
        with in_thread(readiness.ask):
            assert world.infer("hungry", TOO_MUCH)[0] == 500
            died = death()
            eventually(lambda: any(not said for said in readiness.model))
            assert not world.server.ready()
            eventually(lambda: readiness.model[-1])
            assert world.server.ready()
        assert group.kills() == 1
    replaced = float(loaded.read_text().split()[1])
    assert readiness.first(True, died) - replaced < TRUTH_SECONDS
    early = [
        said
        for began, heard, said in zip(
            readiness.began, readiness.heard, readiness.model, strict=True
        )
        if began > died + TRUTH_SECONDS and heard < replaced
    ]
    assert early
    assert not any(early)
