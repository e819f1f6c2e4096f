"""Sequences in pretend time: slots, backlog, order, time-outs, cancellation, drain."""

import asyncio

import pytest

from inference_runtime.errors import Cancelled, DeadlineExceeded, FailureReason, FaultCode
from inference_runtime.scheduling.hold import Hold
from inference_runtime.spec.messages import InferRequest
from tests.inference_runtime.scheduling.sequence_stage import (
    SequenceStage,
    is_client_fault,
    sequence_config,
)
from tests.inference_runtime.scheduling.virtual_time import MS, SECOND

STRATEGIES = ("direct { }", "oldest { }")
START_MISSING = "must specify the START flag on the first request of the sequence"


@pytest.fixture(params=STRATEGIES)
def stage(request):
    return SequenceStage(sequence_config(request.param))


def test_a_sequence_adds_up_and_a_new_one_begins_at_nothing(stage):
    first = [stage.send(7, 1, "s"), stage.send(7, 2), stage.send(7, 3, "e")]
    stage.loop.advance(100 * MS)
    second = stage.send(7, 40, "s")
    stage.loop.advance(100 * MS)
    assert stage.sums(*first, second) == [1, 3, 6, 40]
    assert [stage.output(request, "FLAGS")[0] for request in first] == [3, 2, 6]
    assert [stage.output(request, "ID")[0] for request in first] == [7, 7, 7]
    assert stage.stats.device().inferences == 4


def test_the_numbers_of_the_protocols_checklist(stage):
    requests = [stage.send(5, n, "s" if n == 1 else "e" if n == 9 else "") for n in range(1, 10)]
    stage.loop.advance(SECOND)
    assert stage.sums(*requests) == [1, 3, 6, 10, 15, 21, 28, 36, 45]
    device = stage.stats.device()
    assert (device.successes, device.inferences, device.executions) == (9, 9, 9)


@pytest.mark.parametrize("id_", [0, ""])
def test_no_id_is_no_sequence(stage, id_):
    request = stage.send(id_, 1, "s")
    assert is_client_fault(stage, request, "must specify a non-zero or non-empty correlation ID")
    assert stage.stats.failures[FailureReason.CLIENT] == 1
    assert stage.stats.failed == 0


def test_a_sequence_begins_with_start_and_ends_with_end(stage):
    too_early = stage.send(3)
    assert is_client_fault(stage, too_early, f"for sequence 3 to model 'seq' {START_MISSING}")
    stage.send(3, 1, "se")
    too_late = stage.send(3)
    assert is_client_fault(stage, too_late, START_MISSING)
    stage.loop.advance(SECOND)
    assert len(stage.outcomes.order) == 3
    assert stage.scheduler.sequences == 0


def test_two_rows_are_refused(stage):
    request = stage.send(3, 1, "s", rows=2)
    assert is_client_fault(
        stage, request, "must specify batch-size 1 due to requirements of sequence batcher"
    )
    # The general rule comes first in validation, which has the larger limit.
    assert stage.scheduler.inflight == 0


def test_an_id_of_the_wrong_kind_is_refused_when_the_model_asks_for_ids():
    numbers = SequenceStage(sequence_config())
    request = numbers.send("abc", 1, "s")
    assert is_client_fault(
        numbers,
        request,
        "sequence batching control 'CORRID' data-type is 'BYTES', but model 'seq' expects 'UINT64'",
    )
    texts = SequenceStage(sequence_config(corrid="BYTES"))
    request = texts.send(5, 1, "s")
    assert is_client_fault(texts, request, "data-type is 'UINT64', but model 'seq' expects 'BYTES'")
    good = texts.send("5", 1, "s")
    texts.loop.advance(SECOND)
    assert texts.output(good, "ID") == b"\x01\x00\x00\x005"


def test_start_on_an_active_id_begins_anew_in_the_same_slot(stage):
    old = [stage.send(7, 1, "s"), stage.send(7, 2)]
    new = [stage.send(7, 10, "s"), stage.send(7, 20), stage.send(7, 30, "e")]
    stage.loop.advance(SECOND)
    assert stage.sums(*old, *new) == [1, 3, 10, 30, 60]
    assert stage.scheduler.sequences == 0


def test_four_sequences_fill_a_batch_and_a_fifth_waits_until_one_ends(stage):
    first = [stage.send(id_, id_, "s") for id_ in (1, 2, 3, 4)]
    fifth = [stage.send(5, 50, "s"), stage.send(5, 5, "e")]
    stage.loop.advance(100 * MS)
    assert stage.sums(*first, *fifth) == [1, 2, 3, 4, "waits", "waits"]
    assert stage.batch_stats() == {4: 1}
    assert stage.scheduler.gauges().pending == 2
    last = stage.send(3, 3, "e")
    stage.loop.advance(100 * MS)
    assert stage.sums(last, *fifth) == [6, 50, 55]
    assert stage.scheduler.sequences == 3


def test_the_backlog_is_served_in_its_order_and_keeps_all_requests(stage):
    holders = [stage.send(id_, 0, "s") for id_ in (1, 2, 3, 4)]
    waiting = [[stage.send(id_, n, "s" * (n == 1)) for n in (1, 2)] for id_ in (11, 12, 13)]
    stage.loop.advance(100 * MS)
    for id_, (first, second) in zip((1, 2, 3), waiting, strict=True):
        assert stage.sums(first) == ["waits"]
        stage.send(id_, 0, "e")
        stage.loop.advance(100 * MS)
        assert stage.sums(first, second) == [1, 3]
    assert len(stage.outcomes.order) == len(holders) + 6 + 3


def test_an_id_used_again_begins_only_after_the_older_one_has_ended(stage):
    stage.workers[0].duration_ns = 10 * MS
    old = [stage.send(1, n, "s" * (n == 1) + "e" * (n == 3)) for n in (1, 2, 3)]
    new = stage.send(1, 100, "se")
    stage.loop.advance(25 * MS)
    assert stage.sums(old[1], new) == [3, "waits"]
    stage.loop.advance(SECOND)
    assert stage.sums(*old, new) == [1, 3, 6, 100]
    runs = stage.workers[0].executed
    assert runs.index([new]) > max(runs.index([request]) for request in old)


def test_filler_rows_leave_no_trace():
    """Slot 0 has fewer requests than slot 1: its row is filled."""
    stage = SequenceStage(sequence_config())
    stage.workers[0].duration_ns = 10 * MS
    short = [stage.send(1, 5, "s")]
    long = [stage.send(2, 7, "s"), stage.send(2, 8)]
    stage.loop.advance(100 * MS)
    late = stage.send(1, 6, "e")
    stage.loop.advance(100 * MS)
    assert stage.sums(*short, *long, late) == [5, 7, 15, 11]
    filled = stage.calls[1]
    assert filled["READY"] == [0, 1]
    assert filled["CORRID"] == [0, 2]
    assert filled["START"] == [0, 0]
    assert filled["INPUT0"] == [8, 8]
    assert filled["SUM_IN"] == [0, 7]
    device = stage.stats.device()
    assert (device.successes, device.inferences, device.executions) == (4, 4, 3)
    assert stage.batch_stats() == {2: 2, 1: 1}


@pytest.mark.parametrize(
    ("utilization", "first_ms", "second_ms"), [(0.0, 1, 2), (0.5, 1, 3001), (1.0, 3001, 3002)]
)
def test_the_delay_of_the_direct_strategy(utilization, first_ms, second_ms):
    """The line of section 4.5: two sequences of one and two requests, four slots."""
    strategy = (
        f"direct {{ max_queue_delay_microseconds: 3000000 "
        f"minimum_slot_utilization: {utilization} }}"
    )
    stage = SequenceStage(sequence_config(strategy))
    began_ns = stage.loop.now_ns
    moments: dict[int, float] = {}
    requests = [stage.send(2, 1, "s"), stage.send(1, 1, "s"), stage.send(1, 2, "e")]
    for _ in range(5000):
        stage.loop.advance(MS)
        for request in requests:
            if request in stage.outcomes.answers:
                moments.setdefault(id(request), (stage.loop.now_ns - began_ns) / MS)
    first, second = moments[id(requests[1])], moments[id(requests[2])]
    assert first == pytest.approx(first_ms, abs=4)
    assert second == pytest.approx(second_ms, abs=4)
    assert moments[id(requests[0])] == first
    assert stage.batch_stats() == {2: 2}
    assert stage.stats.device().inferences == 3


def test_an_idle_sequence_loses_its_slot_to_one_that_waits(stage):
    for id_ in (1, 2, 3, 4):
        stage.send(id_, 1, "s")
    stage.loop.advance(3 * SECOND)
    kept = [stage.send(id_) for id_ in (2, 3, 4)]
    waiting = stage.send(5, 50, "s")
    stage.loop.advance(SECOND)
    assert stage.sums(*kept, waiting) == [2, 2, 2, "waits"]
    stage.loop.advance(1100 * MS)
    assert stage.sums(waiting) == [50]
    assert is_client_fault(stage, stage.send(1), START_MISSING)


def test_a_slow_step_does_not_make_its_sequence_idle(stage):
    stage.workers[0].duration_ns = 8 * SECOND
    first = stage.send(1, 1, "s")
    stage.loop.advance(7 * SECOND)
    second = stage.send(1, 2)
    stage.loop.advance(20 * SECOND)
    assert stage.sums(first, second) == [1, 3]


def test_waiting_for_a_slot_is_not_being_idle(stage):
    for id_ in (1, 2, 3, 4):
        stage.send(id_, 1, "s")
    waiting = stage.send(5, 50, "s")
    for _ in range(5):
        stage.loop.advance(2 * SECOND)
        for id_ in (1, 2, 3, 4):
            stage.send(id_, 1)
    stage.send(1, 1, "e")
    stage.loop.advance(4 * SECOND)
    assert stage.sums(waiting) == [50]
    assert stage.sums(after := stage.send(5, 1)) == ["waits"]
    stage.loop.advance(SECOND)
    assert stage.sums(after) == [51]


def test_a_backlogged_sequence_times_out_as_a_whole(stage):
    running = [stage.send(id_, 1, "s") for id_ in (1, 2, 3, 4)]
    stage.loop.advance(100 * MS)
    late = [stage.send(5, 1, "s"), stage.send(5, 2, timeout_us=3_000_000), stage.send(5, 3)]
    patient = stage.send(6, 60, "s")
    stage.loop.advance(2900 * MS)
    assert stage.sums(*late) == ["waits"] * 3
    stage.loop.advance(200 * MS)
    faults = [stage.outcomes.fault(request) for request in late]
    assert {fault.text for fault in faults} == {
        "timeout of the corresponding sequence has been expired"
    }
    assert all(isinstance(fault, DeadlineExceeded) for fault in faults)
    assert {fault.code for fault in faults} == {FaultCode.UNAVAILABLE}
    assert is_client_fault(stage, stage.send(5, 4), START_MISSING)
    assert stage.sums(patient) == ["waits"]
    assert stage.sums(*running) == [1, 1, 1, 1]


def test_the_timeout_means_nothing_to_a_sequence_that_has_its_slot(stage):
    stage.workers[0].duration_ns = 2 * SECOND
    requests = [stage.send(1, 1, "s", timeout_us=1000), stage.send(1, 2, timeout_us=1000)]
    stage.loop.advance(5 * SECOND)
    assert stage.sums(*requests) == [1, 3]


def test_cancelling_one_waiting_request_cancels_all_that_wait(stage):
    stage.workers[0].duration_ns = 100 * MS
    running = stage.send(1, 1, "s")
    stage.loop.settle()
    waiting = [stage.send(1, 2), stage.send(1, 3), stage.send(1, 4)]
    other = stage.send(2, 9, "s")
    stage.scheduler.cancel(waiting[1])
    assert [type(stage.outcomes.fault(request)) for request in waiting] == [Cancelled] * 3
    assert stage.stats.failures[FailureReason.CANCELED] == 3
    assert is_client_fault(stage, stage.send(1, 5), START_MISSING)
    stage.loop.advance(SECOND)
    assert stage.sums(running, other) == [1, 9]
    assert stage.scheduler.sequences == 1


def test_cancelling_in_the_backlog_forgets_the_sequence(stage):
    for id_ in (1, 2, 3, 4):
        stage.send(id_, 1, "s")
    waiting = [stage.send(5, 1, "s"), stage.send(5, 2)]
    stage.loop.advance(10 * MS)
    stage.scheduler.cancel(waiting[1])
    assert all(isinstance(stage.outcomes.fault(request), Cancelled) for request in waiting)
    assert is_client_fault(stage, stage.send(5, 3), START_MISSING)
    assert stage.scheduler.sequences == 4


def test_a_running_request_that_is_cancelled_leaves_its_sequence_as_it_is(stage):
    stage.workers[0].duration_ns = 100 * MS
    running = stage.send(1, 1, "s")
    stage.loop.settle()
    stage.scheduler.cancel(running)
    stage.loop.advance(200 * MS)
    assert isinstance(stage.outcomes.fault(running), Cancelled)
    following = stage.send(1, 2)
    stage.loop.advance(200 * MS)
    assert stage.sums(following) == [3]


def test_a_deadline_of_the_client_ends_the_sequence_in_time(stage):
    stage.workers[0].duration_ns = SECOND
    running = stage.send(1, 1, "s")
    stage.loop.settle()
    late, after = stage.send(1, 2, deadline_ns=300 * MS), stage.send(1, 3)
    stage.loop.advance(310 * MS)
    assert stage.outcomes.fault(late).code is FaultCode.DEADLINE
    assert isinstance(stage.outcomes.fault(after), Cancelled)
    stage.loop.advance(2 * SECOND)
    assert stage.sums(running) == [1]
    assert stage.scheduler.sequences == 0


def test_a_step_that_fails_changes_no_state_and_ends_no_sequence(stage):
    stage.workers[0].backend.failing = {13}
    requests = [stage.send(1, value, "s" * (value == 1)) for value in (1, 13, 2)]
    stage.loop.advance(SECOND)
    assert stage.sums(*requests) == [1, "the model failed", 3]
    assert stage.scheduler.sequences == 1


def test_slots_spread_over_the_instances_lowest_first():
    stage = SequenceStage(sequence_config(), instances=2)
    for id_ in range(1, 9):
        stage.send(id_, 1, "s")
    stage.loop.advance(100 * MS)
    assert [worker.backend.calls[0]["CORRID"] for worker in stage.workers] == [
        [1, 3, 5, 7],
        [2, 4, 6, 8],
    ]
    stage.send(6, 1, "e")
    stage.send(3, 1, "e")
    stage.loop.advance(100 * MS)
    stage.send(20, 1, "s")
    stage.loop.advance(100 * MS)
    assert stage.workers[0].backend.calls[-1]["CORRID"] == [0, 20]


def test_a_model_without_batches_has_one_slot(stage):
    single = SequenceStage(sequence_config(max_batch_size=0))
    first, second = single.send(1, 1, "s"), single.send(2, 2, "s")
    single.loop.advance(100 * MS)
    assert single.sums(first, second) == [1, "waits"]
    assert single.calls[0]["START"] == [1]


def test_oldest_never_has_two_of_a_sequence_in_one_batch():
    stage = SequenceStage(sequence_config("oldest { max_candidate_sequences: 8 }"))
    requests = [
        stage.send(id_, n, "s" * (n == 1) + "e" * (n == 4))
        for n in (1, 2, 3, 4)
        for id_ in range(1, 7)
    ]
    stage.loop.advance(SECOND)
    for batch in stage.workers[0].executed:
        ids = [request.head.sequence_id for request in batch]
        assert len(ids) == len(set(ids)) <= 4
    assert all(0 not in call["CORRID"] for call in stage.calls)
    assert stage.sums(*requests) == [1] * 6 + [3] * 6 + [6] * 6 + [10] * 6
    assert max(stage.batch_stats()) == 4


def test_oldest_takes_as_many_candidates_as_it_is_told():
    stage = SequenceStage(sequence_config("oldest { max_candidate_sequences: 2 }"))
    requests = [stage.send(id_, 1, "s") for id_ in (1, 2, 3)]
    stage.loop.advance(100 * MS)
    assert stage.sums(*requests) == [1, 1, "waits"]


def test_oldest_waits_for_a_preferred_size_no_longer_than_its_delay():
    strategy = "oldest { preferred_batch_size: 3 max_queue_delay_microseconds: 500000 }"
    stage = SequenceStage(sequence_config(strategy))
    two = [stage.send(1, 1, "s"), stage.send(2, 2, "s")]
    stage.loop.advance(400 * MS)
    assert stage.sums(*two) == ["waits", "waits"]
    third = stage.send(3, 3, "s")
    stage.loop.advance(10 * MS)
    assert stage.sums(*two, third) == [1, 2, 3]
    alone = stage.send(1, 1)
    stage.loop.advance(490 * MS)
    assert stage.sums(alone) == ["waits"]
    stage.loop.advance(20 * MS)
    assert stage.sums(alone) == [2]
    assert stage.batch_stats() == {3: 1, 1: 1}


def test_preserved_order_is_that_of_the_requests_over_all_sequences():
    orders = []
    for text in ("", "preserve_ordering: true"):
        stage = SequenceStage(sequence_config(f"oldest {{ {text} }}"))
        requests = [stage.send(1, 1, "s"), stage.send(1, 2), stage.send(2, 1, "s")]
        stage.loop.advance(SECOND)
        assert stage.sums(*requests) == [1, 3, 1]
        assert stage.batch_stats() == {2: 1, 1: 1}
        assert stage.stats.device().successes == 3
        orders.append([requests.index(request) for request in stage.outcomes.order])
    assert orders == [[0, 2, 1], [0, 1, 2]]


def test_an_answer_in_its_order_waits_for_nobody_who_is_gone_or_has_no_slot():
    stage = SequenceStage(sequence_config("oldest { preserve_ordering: true }"))
    stage.workers[0].duration_ns = 10 * MS
    first = [stage.send(1, 1, "s"), stage.send(1, 2), stage.send(1, 3), stage.send(2, 5, "s")]
    for id_ in (3, 4):
        stage.send(id_, 1, "s")
    waiting = stage.send(5, 50, "s")
    after = stage.send(2, 1)
    stage.loop.advance(15 * MS)
    assert stage.sums(*first, waiting) == [1, "waits", "waits", "waits", "waits"]
    stage.scheduler.cancel(first[2])
    assert isinstance(stage.outcomes.fault(first[2]), Cancelled)
    stage.loop.advance(10 * MS)
    assert stage.sums(first[1], first[3]) == [3, 5]
    stage.loop.advance(100 * MS)
    assert stage.sums(after, waiting) == [6, 50]


def test_a_sequence_whose_answer_waits_for_its_turn_is_not_idle():
    config = sequence_config("oldest { preserve_ordering: true }", idle_us=1_000_000)
    stage = SequenceStage(config, instances=2)
    stage.workers[0].duration_ns = 5 * SECOND
    slow = stage.send(1, 10, "s")
    quick = stage.send(2, 20, "s")
    stage.loop.advance(4 * SECOND)
    assert stage.sums(slow, quick) == ["waits", "waits"]
    stage.loop.advance(2 * SECOND - MS)
    assert stage.sums(slow, quick) == [10, 20]
    # Its client has its answer for less than a second.
    more = stage.send(2, 1)
    stage.loop.advance(500 * MS)
    assert stage.sums(more) == [21]
    stage.loop.advance(2 * SECOND)
    assert stage.scheduler.sequences == 0


async def drain_in_pretend_time(stage, during=lambda: None, seconds=10):
    task = asyncio.ensure_future(stage.scheduler.drain())
    await asyncio.sleep(0)
    during()
    took_ms = 0
    while not task.done() and took_ms < seconds * 1000:
        stage.loop.advance(10 * MS)
        took_ms += 10
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await task
    return took_ms


async def test_a_drain_lets_sequences_go_on_and_begins_none(stage):
    begun = stage.send(1, 1, "s")
    stage.loop.advance(100 * MS)
    seen = {}

    def during():
        seen["refused"] = stage.send(2, 1, "s")
        seen["following"] = stage.send(1, 2, "e")

    took_ms = await drain_in_pretend_time(stage, during)
    assert stage.sums(begun, seen["following"]) == [1, 3]
    assert "has stopped accepting new inference requests" in stage.sums(seen["refused"])[0]
    assert took_ms < 1000
    assert stage.scheduler.sequences == 0


async def test_a_drain_waits_for_a_sequence_until_it_is_idle(stage):
    stage.send(1, 1, "s")
    stage.loop.advance(100 * MS)
    assert (stage.scheduler.inflight, stage.scheduler.gauges().inflight) == (1, 0)
    took_ms = await drain_in_pretend_time(stage)
    assert took_ms == pytest.approx(4900, abs=50)


def test_a_held_scheduler_waits_once_for_requests_and_for_a_backlog():
    """Triton's hook for tests: batches that do not depend on who comes first."""
    stage = SequenceStage(sequence_config(), hold=Hold(requests=3, backlog=1))
    first = [stage.send(id_, id_, "s") for id_ in (1, 2, 3, 4)]
    stage.loop.advance(SECOND)
    assert stage.sums(*first) == ["waits"] * 4
    waiting = stage.send(5, 5, "s")
    stage.loop.advance(SECOND)
    assert stage.sums(*first, waiting) == [1, 2, 3, 4, "waits"]
    alone = stage.send(1, 1)
    stage.loop.advance(SECOND)
    assert stage.sums(alone) == [2]


def test_a_client_that_gives_up_everything_when_one_sequence_fails(stage):
    """Both sequences are late; the answer to the first has its client cancel the second."""
    for id_ in (1, 2, 3, 4):
        stage.send(id_, 1, "s")
    listen = stage.outcomes.done
    late: list[InferRequest] = []

    def done(request, answer):
        listen(request, answer)
        if request is late[0]:
            stage.scheduler.cancel(late[1])

    stage.outcomes.done = done
    late += [stage.send(id_, 1, "s", timeout_us=50_000) for id_ in (5, 6)]
    stage.loop.advance(SECOND)
    assert isinstance(stage.outcomes.fault(late[0]), DeadlineExceeded)
    assert isinstance(stage.outcomes.fault(late[1]), Cancelled)
    assert stage.outcomes.repeated == 0
    assert stage.scheduler.sequences == 4


def test_clients_that_only_ever_start_leave_nothing_behind():
    """Far more sequences than slots, none of them ended by its client."""
    stage = SequenceStage(sequence_config("oldest { }", idle_us=20_000))
    requests = [stage.send(id_, 1, "s") for id_ in range(1, 2001)]
    stage.loop.advance(20 * SECOND)
    assert stage.sums(*requests) == [1] * 2000
    assert stage.outcomes.order == requests
    assert stage.scheduler.sequences == 0
    assert not any(stage.scheduler.holds(id_) for id_ in range(1, 2001))


def test_batches_of_the_oldest_strategy_do_not_shrink_over_time():
    """Clients that go on at once, four times as many as there are candidates."""
    strategy = "oldest { max_candidate_sequences: 32 max_queue_delay_microseconds: 2000 }"
    stage = SequenceStage(sequence_config(strategy, max_batch_size=16))
    listen = stage.outcomes.done
    steps = 12

    def done(request, answer):
        listen(request, answer)
        id_ = request.head.sequence_id
        if request.head.sequence_end:
            stage.send(id_, steps, "s")
        else:
            left = int.from_bytes(request.data[0], "little") - 1
            stage.send(id_, left, "e" * (left == 1))

    stage.outcomes.done = done  # type: ignore[method-assign]
    for id_ in range(1, 129):
        stage.send(id_, steps, "s")
    sizes = []
    for _ in range(2):
        before = len(stage.workers[0].executed)
        stage.loop.advance(400 * MS)
        batches = stage.workers[0].executed[before:]
        sizes.append(sum(map(len, batches)) / len(batches))
    assert sizes[0] > 15
    assert sizes[1] > 0.9 * sizes[0]
