"""When a process is started again, who waits for whom, and what options say; without any process."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from inference_runtime.backends.python.call_graph import CallGraph
from inference_runtime.backends.python.options import MIB, check_instance_name, read_options
from inference_runtime.backends.python.supervisor import (
    DEATHS_WINDOW_SECONDS,
    MAX_DEATHS,
    BackOff,
    Supervisor,
)
from inference_runtime.errors import Internal, InvalidArgument, Unsupported
from tests.conformance.python_world import eventually


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_death_is_waited_for_longer_and_then_it_is_enough():
    back_off = BackOff(Clock())
    pauses = [back_off.died() for _ in range(MAX_DEATHS - 1)]
    assert pauses == [0.5, 1.0, 2.0, 4.0]
    assert back_off.died() is None


def test_deaths_of_long_ago_do_not_count():
    clock = Clock()
    back_off = BackOff(clock)
    for _ in range(3 * MAX_DEATHS):
        assert back_off.died() == 0.5
        clock.now += DEATHS_WINDOW_SECONDS + 1


class Loop:
    """Does at once what is to be done soon, and keeps what is to be done later."""

    def __init__(self) -> None:
        self.later = []

    def call_soon_threadsafe(self, what) -> None:
        what()

    def call_later(self, _, what) -> None:
        self.later.append(what)


class Mortal:
    """A process that can be said to be dead."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.stub = SimpleNamespace(doomed=False, fault=lambda: Internal("It fell over."))


def supervise(start: Any) -> tuple[Any, Loop]:
    loop: Any = Loop()
    return Supervisor("m_0", loop, start=start, restarted=lambda: None), loop


def test_an_instance_without_a_process_says_why_and_when_it_is_given_up():
    supervisor, loop = supervise(Mortal)
    supervisor.begin()
    assert supervisor.trouble == ""
    for _ in range(MAX_DEATHS - 1):
        supervisor.lost(supervisor.process)
        assert (supervisor.alive, supervisor.trouble) == (False, "It fell over.")
        loop.later.pop()()
        eventually(lambda: supervisor.process)
        assert supervisor.trouble == ""
    supervisor.lost(supervisor.process)
    assert loop.later == []
    assert supervisor.trouble == (
        "It fell over. It died 5 times within 10 minutes and is not restarted any more: load the model "
        "again."
    )


@pytest.mark.parametrize("error", [Internal("no such file"), OSError("no such file")], ids=type)
def test_an_instance_that_can_not_be_restarted_says_why_and_is_tried_again(error):
    starts = iter([Mortal()])

    def start():
        found = next(starts, None)
        if found is None:
            raise error
        return found

    supervisor, loop = supervise(start)
    supervisor.begin()
    supervisor.lost(supervisor.process)
    loop.later.pop()()
    eventually(lambda: loop.later)  # for the next try
    assert supervisor.trouble == "It could not be restarted: no such file"


class Caller:
    def __init__(self, *called: str, executing: bool = True) -> None:
        self.executing = executing
        self._called = called

    def called(self) -> tuple[str, ...]:
        return self._called


@pytest.mark.parametrize(
    ("callers", "stuck"),
    [
        ({"a": [Caller("a")]}, True),
        ({"a": [Caller("a"), Caller("a")]}, True),
        ({"a": [Caller("a"), Caller()]}, False),  # the other instance can answer
        ({"a": [Caller("a"), Caller(executing=False)]}, False),
        ({"a": [Caller("b")], "b": [Caller("a")]}, True),
        ({"a": [Caller("b")], "b": [Caller("c")], "c": [Caller("a")]}, True),
        ({"a": [Caller("b")], "b": [Caller("c")]}, False),  # c is another backend's
        ({"a": [Caller("b")], "b": [Caller("a"), Caller("c")], "c": [Caller()]}, False),
        ({"a": [Caller("a", executing=False)]}, False),
    ],
)
def test_a_circle_of_calls_is_found(callers, stuck):
    graph = CallGraph()
    for model, each in callers.items():
        for caller in each:
            graph.join(model, caller)
    assert graph.stuck("a") is stuck
    for model, each in callers.items():
        for caller in each:
            graph.leave(model, caller)
    assert not graph.stuck("a")


def test_options_have_tritons_names_and_defaults():
    options = read_options({}, {})
    assert (options.start_limit, options.memory_limit) == (30, 0)
    assert options.memory_name == "triton_python_backend_shm_region_"
    options = read_options(
        {"MEMORY_LIMIT_BYTES": "5", "RLIMIT_NOFILE": "200"},
        {"stub-timeout-seconds": "7", "shm-max-byte-size": str(3 * MIB), "rlimit-nofile": "100"},
    )
    assert (options.start_limit, options.arena_size, options.memory_limit) == (7, 3 * MIB, 5)
    assert options.resource_limits == {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 100}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shm-default-byte-size": "1024"}, "shm-default-byte-size must be at least 1 MiB"),
        ({"shm-region-prefix-name": ""}, "prefix name must not be empty"),
        ({"stub-timeout-seconds": "soon"}, "'stub-timeout-seconds' of the python backend"),
        ({"thread-pool-size": "-1"}, "must be a number"),
    ],
)
def test_options_that_can_not_be_meant_are_refused(options, text):
    with pytest.raises(InvalidArgument, match=text):
        read_options({}, options)


def test_inputs_are_forced_or_not():
    assert read_options({"FORCE_CPU_ONLY_INPUT_TENSORS": "no"}, {})
    with pytest.raises(
        Unsupported, match="Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'"
    ):
        read_options({"FORCE_CPU_ONLY_INPUT_TENSORS": "maybe"}, {})


def test_names_of_instances_are_no_shell_text():
    check_instance_name("add sub_0")
    for name in ("a;b", "$(x)", "a|b", "`x`", ""):
        with pytest.raises(InvalidArgument, match="Invalid stub name"):
            check_instance_name(name)
