"""Whatever happens, each request ends exactly once, is counted once, and nothing stays behind."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.spec.messages import InferResponse, ResponseHead
from tests.inference_runtime.scheduling.stage import model_config
from tests.inference_runtime.scheduling.virtual_time import MS, SECOND, VirtualStage

CONFIGS = (
    "",
    "dynamic_batching { }",
    "dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 5000 "
    "default_queue_policy { max_queue_size: 6 default_timeout_microseconds: 20000 } }",
    "dynamic_batching { preferred_batch_size: 2 preferred_batch_size: 6 "
    "max_queue_delay_microseconds: 40000 default_queue_policy { default_timeout_microseconds: 15000 "
    "timeout_action: DELAY allow_timeout_override: true } }",
    "dynamic_batching { priority_levels: 3 default_priority_level: 2 "
    "max_queue_delay_microseconds: 3000 "
    "priority_queue_policy { key: 1 value { default_timeout_microseconds: 5000 } } "
    "priority_queue_policy { key: 3 value { max_queue_size: 2 } } }",
    "dynamic_batching { preferred_batch_size: 4 preserve_ordering: true }",
)

sends = st.tuples(
    st.just("send"),
    st.integers(1, 8),  # rows
    st.sampled_from([3, 4]),  # length
    st.sampled_from([0, 1, 2, 3, 9]),  # priority
    st.sampled_from([0, 1000, 60_000]),  # timeout
    st.sampled_from([0, 0, 4 * MS]),  # deadline
)
steps = st.lists(
    st.one_of(
        sends,
        sends,
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.sampled_from([1000, MS, 7 * MS, 60 * MS])),
    ),
    max_size=60,
)
fates = st.lists(
    st.sampled_from(["good", "good", "good", "internal", "client"]), min_size=1, max_size=10
)


class Story:
    """Runs the steps; the n-th executed request meets the n-th fate, over and over."""

    def __init__(self, config: str, instances: int, fates_: list[str], deaf: bool) -> None:
        self.stage = VirtualStage(model_config(config), instances=instances, duration_ns=3 * MS)
        self.requests: list[Any] = []
        self._fates = fates_
        self._executed = 0
        for instance in self.stage.instances:
            instance.answer = self._answer
        if deaf:
            # Every third connection is closed when its answer comes.
            listen = self.stage.outcomes.done

            def done(request: Any, answer: Any) -> None:
                listen(request, answer)
                if len(self.stage.outcomes.order) % 3 == 0:
                    raise RuntimeError("the transport is closed")

            self.stage.outcomes.done = done  # type: ignore[method-assign]

    def _answer(self, request: Any) -> Any:
        fate = self._fates[self._executed % len(self._fates)]
        self._executed += 1
        if fate == "internal":
            return Internal("the model failed")
        if fate == "client":
            return InvalidArgument("the model does not like it")
        return InferResponse(ResponseHead("batcher", "1", ()), ())

    def tell(self, steps_: list[tuple[Any, ...]]) -> None:
        for step in steps_:
            match step:
                case ("send", rows, length, priority, timeout_us, deadline_ns):
                    self._send(rows, length, priority, timeout_us, deadline_ns)
                case ("cancel", index) if index < len(self.requests):
                    self.stage.dispatcher.cancel(self.requests[index])
                case ("advance", duration_ns):
                    self.stage.loop.advance(duration_ns)
            self.check_gauges()
        self.stage.loop.advance(100 * SECOND)

    def _send(self, rows: int, length: int, priority: int, timeout: int, deadline: int) -> None:
        now_ns = self.stage.loop.now_ns
        request = self.stage.clients.request(
            rows, length=length, at_ns=now_ns, priority=priority, timeout_us=timeout
        )
        request.deadline_ns = now_ns + deadline if deadline else 0
        request.arm = ("stable", "canary", "default")[len(self.requests) % 3]
        self.requests.append(request)
        self.stage.dispatcher.submit(request)

    def check_gauges(self) -> None:
        gauges = self.stage.dispatcher.gauges()
        answered = len(self.stage.outcomes.order)
        assert gauges.inflight == len(self.requests) - answered
        assert 0 <= gauges.pending <= gauges.inflight
        assert 0 <= gauges.busy <= gauges.instances


@settings(max_examples=300, deadline=None)
@given(
    config=st.sampled_from(CONFIGS),
    instances=st.integers(1, 3),
    fates_=fates,
    steps_=steps,
)
def test_each_request_ends_once_and_the_counts_add_up(config, instances, fates_, steps_):
    story = Story(config, instances, fates_, deaf=False)
    story.tell(steps_)
    outcomes, stats = story.stage.outcomes, story.stage.stats
    assert outcomes.repeated == 0
    assert set(outcomes.answers) == set(story.requests)

    gauges = story.stage.dispatcher.gauges()
    assert (gauges.pending, gauges.inflight, gauges.busy) == (0, 0, 0)

    device = stats.device()
    good = outcomes.succeeded()
    faults = [a for a in outcomes.answers.values() if isinstance(a, RuntimeFault)]
    assert device.successes == len(good)
    assert device.inferences == sum(request.plan.batch_size for request in good)
    assert sum(stats.failures.values()) == len(faults)
    assert sum(arm.requests for arm in stats.arms.values()) == len(story.requests)
    assert sum(arm.successes for arm in stats.arms.values()) == len(good)
    assert sum(sum(arm.latency) for arm in stats.arms.values()) == len(good)
    assert sum(arm.executions for arm in stats.arms.values()) == device.executions
    assert sum(size.executions for size in device.batch_sizes.values()) == device.executions
    assert device.executions == len(story.stage.rows)
    refused = sum(1 for f in faults if f.text.endswith("Exceeds maximum queue size"))
    assert stats.failed == len(faults) - refused
    for request in good:
        assert request.times.started_ns >= request.received_ns
        assert request.times.compute_ns >= 0


@settings(max_examples=200, deadline=None)
@given(config=st.sampled_from(CONFIGS), fates_=fates, steps_=steps)
def test_no_batch_breaks_the_rules(config, fates_, steps_):
    story = Story(config, 2, fates_, deaf=False)
    story.tell(steps_)
    for instance in story.stage.instances:
        for batch in instance.executed:
            assert 1 <= sum(r.plan.batch_size for r in batch) <= 8
            assert len({r.plan.merge_key for r in batch}) == 1
            if not story.stage.config.dynamic_batching:
                assert len(batch) == 1


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=50, deadline=None)
@given(config=st.sampled_from(CONFIGS), steps_=steps)
def test_an_answer_that_can_not_be_delivered_costs_nobody_else_his(config, steps_):
    story = Story(config, 1, ["good"], deaf=True)
    story.tell(steps_)
    assert story.stage.outcomes.repeated == 0
    assert set(story.stage.outcomes.answers) == set(story.requests)


def test_preserved_order_is_kept_whatever_the_instances_do():
    story = Story(CONFIGS[-1], 3, ["good", "internal"], deaf=False)
    for index, instance in enumerate(story.stage.instances):
        instance.duration_ns = (index + 1) * 7 * MS
    story.tell([("send", 1, 4, 0, 0, 0), ("advance", MS)] * 40)
    assert story.stage.outcomes.order == story.requests
