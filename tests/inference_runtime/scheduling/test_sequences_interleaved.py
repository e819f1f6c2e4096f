"""Any interleaving of sequences: each request ends once, sums are right, slots and gauges come back."""

from typing import Any

from hypothesis import given, settings, strategies as st

from inference_runtime.errors import RuntimeFault
from inference_runtime.spec.messages import InferResponse
from tests.inference_runtime.scheduling.sequence_stage import SequenceStage, sequence_config
from tests.inference_runtime.scheduling.virtual_time import MS, SECOND

STRATEGIES = (
    "direct { }",
    "direct { max_queue_delay_microseconds: 5000 minimum_slot_utilization: 0.5 }",
    "oldest { }",
    "oldest { preserve_ordering: true }",
    "oldest { max_candidate_sequences: 3 preferred_batch_size: 2 max_queue_delay_microseconds: 4000 }",
)
IDLE_NS = 50 * MS
BAD = 1_000_000
ids = st.integers(1, 7)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            ids,
            st.sampled_from(["", "", "", "s", "s", "e", "se"]),
            st.sampled_from([0, 0, 0, 2000, 30_000]),  # timeout
            st.sampled_from([0, 0, 0, 0, 3 * MS]),  # deadline
            st.sampled_from([True, True, True, False]),  # the model likes it
        ),
        st.tuples(st.just("cancel"), st.integers(0, 60)),
        st.tuples(st.just("advance"), st.sampled_from([1000, MS, 7 * MS, 60 * MS])),
    ),
    max_size=80,
)


class Story:
    """Runs the steps and remembers what became of each request."""

    def __init__(self, strategy: str, instances: int, max_batch_size: int) -> None:
        config = sequence_config(strategy, idle_us=IDLE_NS // 1000, max_batch_size=max_batch_size)
        self.stage = SequenceStage(config, instances=instances)
        for index, worker in enumerate(self.stage.workers):
            worker.duration_ns = (index + 1) * 2 * MS
            worker.backend.failing = {BAD}
        self.requests: list[Any] = []
        self.cancelled: set[Any] = set()

    def tell_one(self, id_: int, flags: str) -> None:
        self.requests.append(self.stage.send(id_, 1, flags))

    def tell(self, steps_: list[tuple[Any, ...]]) -> None:
        for step in steps_:
            match step:
                case ("send", id_, flags, timeout_us, deadline_ns, good):
                    value = len(self.requests) + 1 if good else BAD
                    self.requests.append(
                        self.stage.send(
                            id_, value, flags, timeout_us=timeout_us, deadline_ns=deadline_ns
                        )
                    )
                case ("cancel", index) if index < len(self.requests):
                    self.cancelled.add(self.requests[index])
                    self.stage.scheduler.cancel(self.requests[index])
                case ("advance", duration_ns):
                    self.stage.loop.advance(duration_ns)
            gauges = self.stage.scheduler.gauges()
            assert gauges.inflight == len(self.requests) - len(self.stage.outcomes.order)
            assert 0 <= gauges.pending <= gauges.inflight
        self.stage.loop.advance(100 * SECOND)


def reference(requests: list[Any], failed: set[Any]) -> dict[Any, int]:
    """The sum each executed request has to show: those of its id since the last START that ran."""
    sums: dict[Any, int] = {}
    running: dict[Any, int] = {}
    for request in requests:
        id_ = request.head.sequence_id
        if request.head.sequence_start:
            running[id_] = 0
        sums[request] = running[id_] + int.from_bytes(request.data[0], "little")
        if request not in failed:
            running[id_] = sums[request]
    return sums


@settings(max_examples=150, deadline=None)
@given(
    strategy=st.sampled_from(STRATEGIES),
    instances=st.integers(1, 3),
    max_batch_size=st.sampled_from([0, 1, 4]),
    steps_=steps,
)
def test_each_request_ends_once_with_the_right_sum(strategy, instances, max_batch_size, steps_):
    if max_batch_size < 2:
        strategy = strategy.replace("preferred_batch_size: 2", "")
    story = Story(strategy, instances, max_batch_size)
    story.tell(steps_)
    stage = story.stage
    assert stage.outcomes.repeated == 0
    assert set(stage.outcomes.answers) == set(story.requests)
    gauges = stage.scheduler.gauges()
    assert (gauges.pending, gauges.inflight, gauges.busy) == (0, 0, 0)
    assert stage.scheduler.sequences == 0

    faults = [a for a in stage.outcomes.answers.values() if isinstance(a, RuntimeFault)]
    good = [a for a in stage.outcomes.answers.values() if isinstance(a, InferResponse)]
    device = stage.stats.device()
    assert device.inferences == device.successes == len(good)
    assert sum(stage.stats.failures.values()) == len(faults)
    executions = [batch for worker in stage.workers for batch in worker.executed]
    assert device.executions == len(executions)
    for batch in executions:
        executed_ids = [request.head.sequence_id for request in batch]
        assert len(executed_ids) == len(set(executed_ids)) <= max(max_batch_size, 1)

    executed = {request for batch in executions for request in batch}
    in_order = [request for request in story.requests if request in executed]
    failed = {request for worker in stage.workers for request in worker.failed}
    expected = reference(in_order, failed)
    for request in in_order:
        answer = stage.outcomes.answers[request]
        if isinstance(answer, InferResponse):
            assert stage.sums(request) == [expected[request]]


@settings(max_examples=50, deadline=None)
@given(strategy=st.sampled_from(STRATEGIES), steps_=steps)
def test_all_slots_are_there_again_afterwards(strategy, steps_):
    story = Story(strategy, 2, 4)
    story.tell(steps_)
    stage = story.stage
    slots = 2 * (3 if "candidate" in strategy else 4)
    fresh = [stage.send(1000 + n, 1, "s") for n in range(slots + 1)]
    stage.loop.advance(30 * MS)
    assert stage.sums(*fresh) == [1] * slots + ["waits"]


@settings(max_examples=100, deadline=None)
@given(
    story=st.lists(st.tuples(ids, st.sampled_from([0, 1000, MS, 3 * MS])), max_size=60),
    instances=st.integers(1, 3),
)
def test_ordered_answers_leave_in_the_order_of_the_requests(story, instances):
    """Whatever the instances do; every sequence has its slot."""
    story_ = Story("oldest { max_candidate_sequences: 7 preserve_ordering: true }", instances, 4)
    begun: set[int] = set()
    for id_, advance_ns in story:
        story_.tell_one(id_, "" if id_ in begun else "s")
        begun.add(id_)
        story_.stage.loop.advance(advance_ns)
    story_.stage.loop.advance(100 * SECOND)
    assert story_.stage.outcomes.order == story_.requests
    assert all(
        isinstance(answer, InferResponse) for answer in story_.stage.outcomes.answers.values()
    )
