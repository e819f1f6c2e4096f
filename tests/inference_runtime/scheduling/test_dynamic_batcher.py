"""Protocol 4.3, and 9.8 row 124: which requests make a batch, and when it is sent."""

import pytest

from inference_runtime.instances.batch import Batch
from inference_runtime.scheduling.dynamic_batcher import DynamicBatcher, SingleBatcher, WaitUntil
from inference_runtime.scheduling.hold import HeldBatcher, Hold
from inference_runtime.scheduling.request_queue import RequestQueue
from tests.inference_runtime.scheduling.stage import Clients, model_config

SECOND = 1_000_000_000
DELAY = 10 * SECOND


class Bench:
    """A queue and a batcher, without anything that executes."""

    def __init__(self, preferred: list[int], delay_us: int = 10_000_000) -> None:
        sizes = " ".join(f"preferred_batch_size: {size}" for size in preferred)
        text = f"dynamic_batching {{ {sizes} max_queue_delay_microseconds: {delay_us} }}"
        self.config = model_config(text)
        batching = self.config.dynamic_batching
        assert batching is not None
        self.queue = RequestQueue(batching)
        self.batcher = DynamicBatcher(batching, self.config.max_batch_size)
        self.clients = Clients(self.config)

    def arrive(self, *rows: int, at: int = 0, length: int = 4) -> None:
        for size in rows:
            assert self.queue.push(self.clients.request(size, at_ns=at, length=length))

    def decide(self, now: int) -> int | str:
        """Rows of the batch that is sent now, else what happens instead."""
        step = self.batcher.next_batch(self.queue, now)
        if isinstance(step, Batch):
            assert step.rows == sum(request.plan.batch_size for request in step.requests)
            return step.rows
        return f"wait until {step.at_ns // SECOND}" if isinstance(step, WaitUntil) else "empty"

    def send_all(self, now: int) -> list[int]:
        sent = []
        while isinstance(rows := self.decide(now), int):
            sent.append(rows)
        return sent


@pytest.fixture
def bench() -> Bench:
    return Bench([2, 6])


def test_124_2_then_6_are_sent_at_once(bench):
    bench.arrive(2)
    assert bench.decide(0) == 2
    bench.arrive(6, at=SECOND)
    assert bench.decide(SECOND) == 6


@pytest.mark.parametrize("rows", [1, 3])
def test_124_a_size_nobody_prefers_waits_for_the_delay(bench, rows):
    bench.arrive(rows)
    assert bench.decide(0) == "wait until 10"
    assert bench.decide(DELAY - 1) == "wait until 10"
    assert bench.decide(DELAY) == rows


def test_124_7_is_more_than_any_preferred_size_and_goes_at_once(bench):
    bench.arrive(7)
    assert bench.decide(0) == 7


def test_124_1_and_3_go_together_when_the_first_is_10_seconds_old(bench):
    bench.arrive(1)
    assert bench.decide(0) == "wait until 10"
    bench.arrive(3, at=SECOND)
    assert bench.decide(SECOND) == "wait until 10"
    assert bench.decide(DELAY) == 4


def test_124_another_shape_sends_what_has_gathered(bench):
    bench.arrive(1, 3)
    assert bench.decide(0) == "wait until 10"
    bench.arrive(1, at=SECOND, length=5)
    assert bench.decide(SECOND) == 4
    assert bench.decide(SECOND) == "wait until 11"
    assert bench.decide(SECOND + DELAY) == 1


def test_124_3_then_7_are_sent_separately_at_once(bench):
    bench.arrive(3)
    assert bench.decide(0) == "wait until 10"
    bench.arrive(7, at=SECOND)
    assert bench.send_all(SECOND) == [3, 7]


def test_124_3_then_4_sends_3_and_lets_4_wait(bench):
    bench.arrive(3)
    assert bench.decide(0) == "wait until 10"
    bench.arrive(4, at=SECOND)
    assert bench.decide(SECOND) == 3
    assert bench.decide(SECOND) == "wait until 11"


def test_124_three_ones_send_2_and_keep_1(bench):
    bench.arrive(1, 1, 1)
    assert bench.decide(0) == 2
    assert bench.decide(0) == "wait until 10"
    assert bench.decide(DELAY) == 1


def test_124_six_ones_are_one_batch(bench):
    bench.arrive(*[1] * 6)
    assert bench.send_all(0) == [6]


def test_124_an_exceeded_delay_beats_preferred_sizes(bench):
    bench.arrive(3, 4)
    bench.arrive(1, at=DELAY)
    assert bench.decide(DELAY + 1) == 8


@pytest.mark.parametrize(
    ("preferred", "count", "sent"), [([4], 5, [4, 1]), ([4, 6], 7, [6, 1]), ([8], 5, [5])]
)
def test_124_without_a_delay_the_best_size_goes_and_the_rest_follows(preferred, count, sent):
    bench = Bench(preferred, delay_us=0)
    bench.arrive(*[1] * count)
    assert bench.send_all(0) == sent


def test_never_exceeds_the_largest_batch():
    bench = Bench([], delay_us=0)
    bench.arrive(3, 3, 3, 8, 1)
    assert bench.send_all(0) == [6, 3, 8, 1]


def test_a_model_without_a_batch_dimension_executes_one_by_one_and_at_once():
    config = model_config(
        "dynamic_batching { max_queue_delay_microseconds: 5000000 }",
        base="""
        name: "plain" backend: "identity" max_batch_size: 0
        input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
        """,
    )
    assert config.dynamic_batching is not None
    queue = RequestQueue(config.dynamic_batching)
    batcher = DynamicBatcher(config.dynamic_batching, config.max_batch_size)
    clients = Clients(config)
    for _ in range(3):
        queue.push(clients.request(1))
    sizes = [
        len(batch.requests)
        for _ in range(3)
        if isinstance(batch := batcher.next_batch(queue, 0), Batch)
    ]
    assert sizes == [1, 1, 1]


def test_127_requests_with_other_optional_inputs_are_executed_singly():
    config = model_config(
        "dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 10000000 }",
        base="""
        name: "optional" backend: "identity" max_batch_size: 8
        input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 optional: true }
        input { name: "INPUT1" data_type: TYPE_FP32 dims: 4 optional: true }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
        output { name: "OUTPUT1" data_type: TYPE_FP32 dims: 4 }
        """,
    )
    assert config.dynamic_batching is not None
    queue = RequestQueue(config.dynamic_batching)
    batcher = DynamicBatcher(config.dynamic_batching, config.max_batch_size)
    clients = Clients(config)
    for index in (0, 1, 0, 1):
        queue.push(clients.only_input(index))
    sent = 0
    while isinstance(step := batcher.next_batch(queue, 0), Batch):
        assert len(step.requests) == 1
        sent += 1
    assert sent == 3
    assert isinstance(step, WaitUntil)


def test_a_draining_batcher_waits_for_nobody(bench):
    bench.arrive(1)
    assert bench.decide(0) == "wait until 10"
    bench.batcher.hurry()
    assert bench.decide(0) == 1


def test_a_request_that_leaves_is_not_sent(bench):
    bench.arrive(1)
    leaver = bench.clients.request(1)
    bench.queue.push(leaver)
    bench.queue.remove(leaver)
    assert bench.decide(0) == "wait until 10"


def test_a_held_batcher_forms_its_first_batch_of_a_queue_that_is_long_enough():
    queue, clients = RequestQueue(None), Clients(model_config())
    held = HeldBatcher(SingleBatcher(), Hold(requests=2))
    queue.push(clients.request())
    assert held.next_batch(queue, 0) is None
    queue.push(clients.request())
    for _ in range(2):
        batch = held.next_batch(queue, 0)
        assert isinstance(batch, Batch)
    queue.push(clients.request())
    assert held.next_batch(queue, 0) is not None
