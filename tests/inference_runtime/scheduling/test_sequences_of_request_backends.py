"""Sequences on backends that answer request by request: controls as inputs, late answers, rescheduling."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.backends.model_call import (
    RESCHEDULE,
    ModelCall,
    WireTensor,
    are_at_home,
)
from inference_runtime.errors import Cancelled, Internal, InvalidArgument
from inference_runtime.instances.sequence_runner import SequenceRequestRunner
from inference_runtime.spec.model_config import read
from inference_runtime.spec.tensors import to_array
from tests.inference_runtime.scheduling.sequence_stage import (
    SequenceStage,
    is_client_fault,
    sequence_config,
)
from tests.inference_runtime.scheduling.virtual_time import MS, SECOND, VirtualLoop

STRATEGIES = ("direct { }", "oldest { }")


class Countdown:
    """OUTPUT0 = how often it has seen the request, once that is INPUT0 times; until then it wants it again."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.kept: list[ModelCall] = []
        self.keeps = False  # answers later, through `call.send`

    def execute_requests(self, calls: list[ModelCall]) -> list[Any]:
        return [self._reply(call) for call in calls]

    def _reply(self, call: ModelCall) -> Any:
        given = {t.name: to_array(t.datatype, t.shape, t.data).ravel()[0] for t in call.inputs}
        self.calls.append(given)
        if self.keeps:
            self.kept.append(call)
            return None
        seen = [c for c in self.calls if c["CORRID"] == given["CORRID"]]
        if len(seen) < given["INPUT0"]:
            return RESCHEDULE
        return outputs(len(seen), given["CORRID"])


def outputs(value: int, id_: int = 0) -> list[WireTensor]:
    number = np.array([value], "<i4").tobytes()
    return [
        WireTensor("OUTPUT0", "INT32", (1, 1), number),
        WireTensor("FLAGS", "INT32", (1, 1), number),
        WireTensor("ID", "UINT64", (1, 1), np.array([id_], "<u8").tobytes()),
    ]


class ThreadedLoop(VirtualLoop):
    """Pretend threads call from the only thread there is."""

    def call_soon_threadsafe(self, callback: Any, *args: Any) -> None:
        self.call_soon(callback, *args)


class Mortal:
    """OUTPUT0 = the sum of its sequence, kept by id for as long as the process lives."""

    def __init__(self) -> None:
        self.process_number = 1
        self.sums: dict[int, int] = {}
        self.moves = False  # another process takes its place between a batch and its execution

    def become(self, number: int) -> None:
        """0: it is dead."""
        self.process_number = number
        self.sums = {}

    def execute_requests(self, calls: list[ModelCall]) -> list[Any]:
        if self.moves:
            self.become(self.process_number + 1)
        if not (self.process_number and are_at_home(calls, self.process_number)):
            raise Internal("not healthy")
        return [self._reply(call) for call in calls]

    def _reply(self, call: ModelCall) -> Any:
        given = {t.name: to_array(t.datatype, t.shape, t.data).ravel()[0] for t in call.inputs}
        id_ = int(given["CORRID"])
        before = 0 if given["START"] or not given["READY"] else self.sums[id_]
        self.sums[id_] = before + int(given["INPUT0"])
        return outputs(self.sums[id_], id_)


def mortal_stage(strategy: str, *, instances: int = 1) -> SequenceStage:
    stage = make_stage(strategy, iterative=False, instances=instances, mortal=True)
    for worker in stage.workers:
        worker.backend = Mortal()
    return stage


def make_stage(strategy: str, *, iterative: bool = True, idle_us: int = 5_000_000, **more: Any):
    text = strategy + (" iterative_sequence: true" if iterative else "")
    config = without_state(sequence_config(text, idle_us=idle_us))
    loop = ThreadedLoop()
    assert config.sequence_batching is not None
    runner = SequenceRequestRunner(
        config,
        config.sequence_batching,
        model_name="seq",
        version=1,
        loop=loop,  # type: ignore[arg-type]
    )
    stage = SequenceStage(config, backend=Countdown(), runner=runner, loop=loop, **more)
    runner.deliver = partial(stage.scheduler.deliver, stage.workers[0])  # type: ignore[arg-type]
    return stage


def without_state(config: Any) -> Any:
    del config.proto.sequence_batching.state[:]
    return read(config.proto)


@pytest.fixture(params=STRATEGIES)
def stage(request):
    return make_stage(request.param)


def test_a_rescheduled_request_comes_back_as_the_next_step_of_its_sequence(stage):
    request = stage.send(0, 3)
    stage.loop.advance(SECOND)
    assert stage.sums(request) == [3]
    calls = stage.workers[0].backend.calls
    assert [call["START"] for call in calls] == [1, 0, 0]
    assert {int(call["END"]) for call in calls} == {0}
    assert len({int(call["CORRID"]) for call in calls}) == 1
    device = stage.stats.device()
    assert (device.successes, device.inferences, device.executions) == (1, 1, 3)
    assert stage.scheduler.sequences == 0
    assert stage.scheduler.gauges().pending == 0


def test_requests_reschedule_side_by_side_and_each_ends_by_itself(stage):
    requests = [stage.send(0, n) for n in (4, 1, 3, 2, 2, 5)]
    stage.loop.advance(SECOND)
    assert stage.sums(*requests) == [4, 1, 3, 2, 2, 5]
    assert stage.outcomes.repeated == 0
    assert stage.scheduler.sequences == 0


def test_the_client_gets_its_own_head_back(stage):
    request = stage.send(77, 2)
    assert request.head.sequence_id != 77
    stage.loop.advance(SECOND)
    assert stage.sums(request) == [2]
    assert request.head.sequence_id == 77
    assert not request.head.sequence_start


def test_a_request_that_is_cancelled_while_it_runs_is_not_scheduled_again(stage):
    request = stage.send(0, 100)
    stage.loop.advance(10 * MS)
    while request.state != 2:
        stage.loop.advance(1000)
    stage.scheduler.cancel(request)
    stage.loop.advance(SECOND)
    assert isinstance(stage.outcomes.fault(request), Cancelled)
    assert len(stage.workers[0].backend.calls) < 100
    assert stage.scheduler.sequences == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_step_longer_than_the_idle_time_ends_the_sequence(strategy):
    stage = make_stage(strategy, idle_us=200_000)
    stage.workers[0].duration_ns = SECOND
    request = stage.send(0, 2)
    stage.loop.advance(5 * SECOND)
    assert is_client_fault(stage, request, "must specify the START flag")
    assert stage.scheduler.sequences == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_iterative_sequences_nothing_is_rescheduled(strategy):
    stage = make_stage(strategy, iterative=False)
    request = stage.send(5, 3, "s")
    stage.loop.advance(SECOND)
    fault = stage.outcomes.fault(request)
    assert isinstance(fault, InvalidArgument)
    assert fault.text == (
        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not "
        "configured to handle such a flag."
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sequence_waits_for_the_last_answer_to_its_step(strategy):
    stage = make_stage(strategy, iterative=False)
    backend = stage.workers[0].backend
    backend.keeps = True
    first, second = stage.send(5, 1, "s"), stage.send(5, 2, "e")
    other = stage.send(6, 1, "s")
    stage.loop.advance(100 * MS)
    assert [call.request for call in backend.kept] == [first, other]
    backend.kept[0].send(outputs(10), final=True)
    stage.loop.advance(100 * MS)
    assert stage.sums(first, second) == [10, "waits"]
    assert backend.kept[2].request is second
    for call in backend.kept[1:]:
        call.send(outputs(20), final=True)
    stage.loop.advance(100 * MS)
    assert stage.sums(second, other) == [20, 20]
    assert stage.scheduler.sequences == 1


def test_preserved_order_is_that_of_late_answers_too_the_first_of_several_included():
    stage = make_stage("oldest { preserve_ordering: true }", iterative=False)
    stage.workers[0].backend.keeps = True
    first, second = stage.send(5, 1, "s"), stage.send(6, 2, "s")
    seen = []
    for request in (first, second):
        request.partial = lambda request, answer: seen.append(request)
    stage.loop.advance(100 * MS)
    calls = stage.workers[0].backend.kept
    calls[1].send(outputs(20), final=False)
    calls[1].send(outputs(21), final=True)
    stage.loop.advance(MS)
    assert (seen, stage.sums(first, second)) == ([], ["waits", "waits"])
    calls[0].send(outputs(10), final=True)
    stage.loop.advance(MS)
    assert (seen, stage.outcomes.order) == ([second], [first, second])


def test_fillers_reach_a_model_and_their_answers_reach_nobody():
    stage = make_stage("direct { }", iterative=False)
    stage.send(1, 1, "s")
    stage.send(2, 1, "s")
    stage.loop.advance(100 * MS)
    late = stage.send(2, 1)
    stage.loop.advance(100 * MS)
    calls = stage.workers[0].backend.calls
    assert [(int(c["READY"]), int(c["CORRID"])) for c in calls[2:]] == [(0, 0), (1, 2)]
    assert stage.sums(late) == [2]
    assert stage.batch_stats() == {2: 2}
    assert stage.stats.device().inferences == 3


START_MISSING = "must specify the START flag"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sequence_ends_with_the_process_that_knew_it(strategy):
    stage = mortal_stage(strategy, instances=2)
    begun = [stage.send(5, 1, "s"), stage.send(6, 10, "s")]
    stage.loop.advance(MS * 10)
    assert stage.sums(*begun) == [1, 10]
    stage.workers[0].backend.become(0)
    stage.workers[0].backend.become(2)
    unknown, other = stage.send(5, 2), stage.send(6, 20)
    stage.loop.advance(MS * 10)
    assert is_client_fault(stage, unknown, START_MISSING)
    assert stage.sums(other) == [30]
    assert stage.scheduler.sequences == 1
    anew = [stage.send(5, 3, "s"), stage.send(5, 4, "e")]
    stage.loop.advance(MS * 10)
    assert stage.sums(*anew) == [3, 7]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_waits_of_such_a_sequence_ends_with_it_up_to_the_next_start(strategy):
    stage = mortal_stage(strategy)
    requests = [stage.send(5, value, flags) for value, flags in enumerate(["s", "", "", "s", "e"])]
    stage.loop.settle()
    stage.workers[0].backend.become(2)
    stage.loop.advance(MS * 10)
    assert stage.sums(requests[0], *requests[3:]) == [0, 3, 7]
    for request in requests[1:3]:
        assert is_client_fault(stage, request, START_MISSING)
    assert (stage.scheduler.sequences, stage.scheduler.gauges().inflight) == (0, 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sequence_that_could_not_begin_is_unknown_to_the_next_process(strategy):
    stage = mortal_stage(strategy)
    stage.workers[0].backend.become(0)
    first, second = stage.send(5, 1, "s"), stage.send(5, 2)
    stage.loop.advance(MS * 10)
    assert stage.sums(first, second) == ["not healthy", "not healthy"]
    stage.workers[0].backend.become(2)
    third = stage.send(5, 3)
    assert is_client_fault(stage, third, START_MISSING)
    assert stage.scheduler.sequences == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_step_that_meets_another_process_than_its_sequence_fails(strategy):
    stage = mortal_stage(strategy)
    stage.send(5, 1, "s")
    stage.loop.advance(MS * 10)
    stage.workers[0].backend.moves = True
    step = stage.send(5, 2)
    stage.loop.advance(MS * 10)
    assert stage.sums(step) == ["not healthy"]
    stage.workers[0].backend.moves = False
    assert is_client_fault(stage, stage.send(5, 3), START_MISSING)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_waits_for_a_slot_gets_that_of_a_lost_sequence(strategy):
    stage = mortal_stage(strategy)
    for id_ in (1, 2, 3, 4):
        stage.send(id_, id_, "s")
    stage.loop.advance(MS * 10)
    waiting = stage.send(5, 50, "s")
    stage.loop.advance(MS * 10)
    assert stage.sums(waiting) == ["waits"]
    stage.workers[0].backend.become(2)
    other = stage.send(6, 60, "s")
    stage.loop.advance(MS * 10)
    assert stage.sums(waiting, other) == [50, 60]
    assert stage.scheduler.sequences == 2


class Moody:
    """Answers now, later, or not yet, as the moods say."""

    def __init__(self, moods: list[str]) -> None:
        self.moods = moods
        self.count = 0
        self.kept: list[ModelCall] = []
        self.calls = 0

    def execute_requests(self, calls: list[ModelCall]) -> list[Any]:
        self.calls += len(calls)
        if self._mood() == "raise":
            raise Internal("the model failed")
        return [self._reply(call) for call in calls]

    def _mood(self) -> str:
        self.count += 1
        return self.moods[self.count % len(self.moods)]

    def _reply(self, call: ModelCall) -> Any:
        mood = self._mood()
        if mood == "again":
            return RESCHEDULE
        if mood == "fault":
            return Internal("the model does not like it")
        if mood == "twice":  # the answer comes both ways; one counts
            call.send(outputs(1), final=True)
            return outputs(2)
        if mood == "later":
            self.kept.append(call)
            return None
        return outputs(3)

    def let_go(self) -> None:
        kept, self.kept = self.kept, []
        for call in kept:
            call.send(outputs(4), final=True)


stories = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 6), st.sampled_from(["", "s", "s", "e", "se"])),
        st.tuples(st.just("cancel"), st.integers(0, 40), st.just("")),
        st.tuples(st.just("let go"), st.just(0), st.just("")),
        st.tuples(st.just("advance"), st.sampled_from([1000, MS, 30 * MS]), st.just("")),
    ),
    max_size=50,
)


@settings(max_examples=150, deadline=None)
@given(
    strategy=st.sampled_from([*STRATEGIES, "oldest { preserve_ordering: true }"]),
    iterative=st.booleans(),
    moods=st.lists(
        st.sampled_from(["now", "now", "later", "again", "fault", "twice", "raise"]),
        min_size=2,
        max_size=12,
    ),
    story=stories,
)
def test_whatever_a_model_does_each_request_ends_once(strategy, iterative, moods, story):
    stage = make_stage(strategy, iterative=iterative, idle_us=50_000)
    # Sooner or later every request has an answer.
    backend = stage.workers[0].backend = Moody([*moods, "now"])
    requests = []
    for what, number, flags in story:
        if what == "send":
            requests.append(stage.send(number, 1, flags))
        elif what == "cancel" and number < len(requests):
            stage.scheduler.cancel(requests[number])
        elif what == "let go":
            backend.let_go()
        elif what == "advance":
            stage.loop.advance(number)
        gauges = stage.scheduler.gauges()
        assert gauges.inflight == len(requests) - len(stage.outcomes.order)
        assert 0 <= gauges.pending <= gauges.inflight
    backend.moods = ["now"]
    for _ in range(len(requests) + 2):
        stage.loop.advance(SECOND)
        backend.let_go()
    stage.loop.advance(SECOND)
    assert stage.outcomes.repeated == 0
    assert set(stage.outcomes.answers) == set(requests)
    gauges = stage.scheduler.gauges()
    assert (gauges.pending, gauges.inflight, gauges.busy) == (0, 0, 0)
    assert stage.scheduler.sequences == 0
    good = stage.outcomes.succeeded()
    assert stage.stats.device().successes == len(good)
    assert sum(stage.stats.failures.values()) == len(requests) - len(good)
