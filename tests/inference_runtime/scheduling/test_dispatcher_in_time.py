"""Protocol 4.3 and 9.8 through a whole dispatcher, with its timers, in pretend time."""

import pytest

from inference_runtime.errors import Cancelled, FailureReason, FaultCode
from inference_runtime.spec.messages import InferResponse, ResponseHead
from inference_runtime.telemetry.durations import ExecutionTimes
from tests.inference_runtime.scheduling.stage import model_config
from tests.inference_runtime.scheduling.virtual_time import MS, SECOND, VirtualStage

DELAYED = "preferred_batch_size: 2 preferred_batch_size: 6 max_queue_delay_microseconds: 10000000 "


def stage_of(batching: str, *, instances: int = 1, duration_ns: int = MS) -> VirtualStage:
    config = model_config(f"dynamic_batching {{ {batching} }}")
    return VirtualStage(config, instances=instances, duration_ns=duration_ns)


def test_124_the_delay_ends_by_a_timer_although_nothing_arrives():
    stage = stage_of(DELAYED)
    (request,) = stage.send(1)
    stage.loop.advance(10 * SECOND - MS)
    assert stage.rows == []
    stage.loop.advance(2 * MS)
    assert stage.rows == [1]
    assert request in stage.outcomes.answers


def test_124_a_wait_costs_few_wake_ups():
    stage = stage_of(DELAYED)
    stage.send(1)
    stage.loop.advance(11 * SECOND)
    assert stage.loop.timers_set <= 4


def test_124_one_then_three_go_together_when_the_first_is_ten_seconds_old():
    stage = stage_of(DELAYED)
    stage.send(1)
    stage.loop.advance(SECOND)
    stage.send(3)
    stage.loop.advance(9 * SECOND + MS)
    assert stage.rows == [4]


def test_a_delay_below_the_clocks_tick_is_kept():
    stage = stage_of("preferred_batch_size: 8 max_queue_delay_microseconds: 200")
    sent_ns = stage.loop.now_ns
    stage.send(1)
    stage.loop.advance(5 * MS)
    waited_ns = stage.instances[0].started_ns[0] - sent_ns
    assert 200_000 <= waited_ns < 300_000


def test_requests_of_one_turn_make_one_batch_without_any_delay():
    stage = stage_of("preferred_batch_size: 8")
    stage.send(1, 1, 1, 2)
    stage.loop.settle()
    assert stage.rows == [5]


def test_while_the_instance_is_busy_the_queue_grows_into_full_batches():
    stage = stage_of("preferred_batch_size: 8")
    stage.occupy()
    for _ in range(10):
        stage.send(1)
        stage.loop.settle()
    stage.loop.advance(5 * MS)
    assert stage.rows == [1, 8, 2]


def test_129_two_of_ten_are_too_many_for_a_queue_of_eight():
    stage = stage_of(
        "preferred_batch_size: 4 preferred_batch_size: 8 default_queue_policy { max_queue_size: 8 }",
        duration_ns=SECOND,
    )
    stage.occupy()
    requests = stage.send(*[1] * 10, id_="7")
    refused = [r for r in requests if r in stage.outcomes.answers]
    assert len(refused) == 2
    fault = stage.outcomes.fault(refused[0])
    assert fault.text == "[request id: 7] Exceeds maximum queue size"
    assert fault.code is FaultCode.UNAVAILABLE
    assert stage.stats.failures[FailureReason.REJECTED] == 2
    assert stage.stats.failed == 0  # 186: what never entered the queue is in no statistic
    stage.loop.advance(10 * SECOND)
    assert len(stage.outcomes.succeeded()) == 9


def test_129_arrivals_of_one_turn_do_not_fill_a_queue_whose_instance_is_free():
    stage = stage_of("preferred_batch_size: 8 default_queue_policy { max_queue_size: 4 }")
    stage.send(1, 1, 1, 1, 1, 1)
    stage.loop.advance(5 * MS)
    assert stage.rows == [4, 2]


TIMEOUT = "default_queue_policy { default_timeout_microseconds: 100000 %s }"


def test_130_a_request_times_out_and_two_later_ones_run_at_once():
    stage = stage_of(DELAYED + TIMEOUT % "")
    (late,) = stage.send(1)
    stage.loop.advance(103 * MS)
    fault = stage.outcomes.fault(late)
    assert fault.text == "Request timeout expired"
    assert fault.code is FaultCode.UNAVAILABLE
    assert fault.reason is FailureReason.TIMEOUT
    assert stage.stats.failed == 1
    stage.send(2)
    stage.loop.settle()
    assert stage.rows == [2]
    stage.loop.advance(5 * MS)
    stage.send(2)
    stage.loop.advance(5 * MS)
    assert stage.rows == [2, 2]


def test_130_timeouts_fire_while_every_instance_is_busy():
    stage = stage_of(DELAYED + TIMEOUT % "", duration_ns=60 * SECOND)
    stage.send(2)  # a preferred size: runs at once, for a minute
    stage.loop.settle()
    (late,) = stage.send(2)
    stage.loop.advance(103 * MS)
    assert stage.outcomes.fault(late).text == "Request timeout expired"


def test_131_delay_lets_the_late_one_wait_for_the_queue_delay_and_others_pass():
    stage = stage_of(DELAYED + TIMEOUT % "timeout_action: DELAY")
    (late,) = stage.send(1)
    stage.loop.advance(200 * MS)
    first = stage.send(2)
    stage.loop.advance(5 * MS)
    second = stage.send(2)
    stage.loop.advance(5 * MS)
    assert stage.outcomes.order == [*first, *second]
    stage.loop.advance(9 * SECOND)
    assert late not in stage.outcomes.answers
    stage.loop.advance(SECOND)
    assert stage.outcomes.order[-1] is late
    assert stage.rows == [2, 2, 1]


def test_132_an_override_shortens_the_wait_only():
    stage = stage_of(DELAYED + TIMEOUT % "allow_timeout_override: true")
    (shorter,) = stage.send(1, timeout_us=20_000, length=4)
    (longer,) = stage.send(3, timeout_us=900_000, length=4)
    stage.loop.advance(25 * MS)
    assert shorter in stage.outcomes.answers
    assert longer not in stage.outcomes.answers
    stage.loop.advance(80 * MS)
    assert stage.outcomes.fault(longer).text == "Request timeout expired"


def test_133_a_more_urgent_request_joins_the_first_and_the_second_waits():
    stage = stage_of(
        "preferred_batch_size: 4 max_queue_delay_microseconds: 10000000 "
        "priority_levels: 2 default_priority_level: 2"
    )
    (first,) = stage.send(2)
    (second,) = stage.send(1)
    stage.loop.settle()
    assert stage.rows == []
    (urgent,) = stage.send(2, priority=1)
    stage.loop.advance(5 * MS)
    assert stage.rows == [4]
    assert set(stage.outcomes.answers) == {first, urgent}
    stage.loop.advance(11 * SECOND)
    assert second in stage.outcomes.answers


def test_128_preserved_order_holds_back_what_finished_early():
    stage = stage_of("preferred_batch_size: 4 preserve_ordering: true", instances=2)
    slow, quick = stage.instances[1], stage.instances[0]
    slow.duration_ns, quick.duration_ns = 100 * MS, 1 * MS
    requests = stage.send(*[1] * 12)
    stage.loop.advance(50 * MS)
    assert len(quick.executed) > 1
    assert len(stage.outcomes.order) < 12
    stage.loop.advance(SECOND)
    assert stage.outcomes.order == requests


def test_128_without_it_a_later_request_may_overtake():
    stage = stage_of("preferred_batch_size: 4", instances=2)
    stage.instances[0].duration_ns = 100 * MS
    stage.instances[1].duration_ns = 100 * MS
    first = stage.send(1, 1, 1, 1)
    stage.loop.settle()
    for instance in stage.instances:
        instance.duration_ns = MS
    second = stage.send(1)
    stage.loop.advance(SECOND)
    assert stage.outcomes.order == [*second, *first]


def late(stage, request, *, final=True):
    now_ns = stage.loop.now_ns
    times = ExecutionTimes(now_ns, now_ns, now_ns, now_ns)
    answer = InferResponse(ResponseHead("batcher", "1", ()), ())
    stage.dispatcher.deliver(stage.instances[0], request, answer, final, times)


def test_128_answers_that_come_late_leave_in_the_order_of_requests():
    stage = stage_of("preserve_ordering: true")
    at_once = stage.instances[0].answer
    stage.instances[0].answer = lambda request: None
    first, second = stage.send(1, 1)
    stage.loop.advance(2 * MS)
    stage.instances[0].answer = at_once
    third, fourth = stage.send(1, 1)
    stage.loop.advance(2 * MS)
    late(stage, second)
    assert stage.outcomes.order == []
    assert stage.dispatcher.inflight == 4
    late(stage, first)
    assert stage.outcomes.order == [first, second, third, fourth]
    assert (stage.dispatcher.inflight, stage.stats.device().successes) == (0, 4)


def test_128_of_several_answers_those_to_the_first_leave_as_they_come():
    stage = stage_of("preserve_ordering: true")
    stage.instances[0].answer = lambda request: None
    first, second = stage.send(1, 1)
    seen = []
    for request in (first, second):
        request.partial = lambda request, answer: seen.append(request)
    stage.loop.advance(2 * MS)
    late(stage, second, final=False)
    late(stage, first, final=False)
    assert seen == [first]
    late(stage, second)
    late(stage, first, final=False)
    assert seen == [first, first]
    late(stage, first)
    assert seen == [first, first, second]
    assert stage.outcomes.order == [first, second]


def test_128_a_running_request_whose_client_left_holds_up_nobody_for_longer_than_it_runs():
    stage = stage_of("preserve_ordering: true")
    stage.instances[0].answer = lambda request: None
    first, second = stage.send(1, 1)
    stage.loop.advance(2 * MS)
    stage.dispatcher.cancel(first)
    late(stage, second)
    assert stage.outcomes.order == []
    late(stage, first)
    late(stage, first)
    assert stage.outcomes.order == [first, second]
    assert isinstance(stage.outcomes.fault(first), Cancelled)
    assert stage.outcomes.repeated == 0


def test_136_without_dynamic_batching_ten_requests_are_ten_executions():
    stage = VirtualStage(model_config())
    stage.send(*[1] * 10)
    stage.loop.advance(SECOND)
    assert stage.rows == [1] * 10
    assert stage.stats.device().executions == 10


def test_the_default_scheduler_uses_its_instances_in_parallel_and_serves_in_order():
    stage = VirtualStage(model_config(), instances=2, duration_ns=10 * MS)
    requests = stage.send(*[1] * 4)
    stage.loop.advance(25 * MS)
    assert [len(instance.executed) for instance in stage.instances] == [2, 2]
    assert stage.outcomes.order == requests


@pytest.mark.parametrize(
    ("batching", "readings"),
    [
        ("dynamic_batching { preferred_batch_size: 4 }", [6, 2, 0]),
        ("", [9, 8, 7]),
        (
            "dynamic_batching { preferred_batch_size: 4 default_queue_policy { max_queue_size: 4 } }",
            [4, 0, 0],
        ),
    ],
)
def test_191_the_pending_gauge_follows_the_numbers_of_the_protocol(batching, readings):
    stage = VirtualStage(model_config(batching), duration_ns=2 * SECOND)
    stage.send(*[1] * 10)
    stage.loop.settle()
    seen = []
    for _ in readings:
        seen.append(stage.dispatcher.gauges().pending)
        stage.loop.advance(2 * SECOND)
    assert seen == readings


def test_a_clients_deadline_ends_its_wait_with_the_status_grpc_has_for_it():
    stage = stage_of(DELAYED)
    request = stage.clients.request(at_ns=stage.loop.now_ns)
    request.deadline_ns = stage.loop.now_ns + 50 * MS
    stage.dispatcher.submit(request)
    stage.loop.advance(53 * MS)
    assert stage.outcomes.fault(request).code is FaultCode.DEADLINE
    assert stage.stats.arms[""].timeouts == 1


def test_a_cancelled_request_leaves_the_queue_at_once():
    stage = stage_of(DELAYED)
    leaver, stayer = stage.send(1)[0], stage.send(3)[0]
    stage.dispatcher.cancel(leaver)
    assert stage.outcomes.fault(leaver).code is FaultCode.CANCELLED
    stage.loop.advance(20 * SECOND)
    assert stage.rows == [3]
    assert stage.outcomes.order == [leaver, stayer]
    assert stage.stats.failures[FailureReason.CANCELED] == 1


def test_a_request_cancelled_while_it_runs_is_answered_cancelled_and_its_mates_are_not():
    stage = stage_of("preferred_batch_size: 8")
    leaver, mate = stage.send(1, 1)
    stage.loop.settle()
    stage.dispatcher.cancel(leaver)
    assert leaver not in stage.outcomes.answers
    stage.loop.advance(5 * MS)
    assert stage.outcomes.fault(leaver).code is FaultCode.CANCELLED
    assert stage.outcomes.succeeded() == [mate]
    assert stage.stats.arms[""].cancellations == 1
    assert stage.stats.arms[""].successes == 1


def test_a_request_that_is_done_can_not_be_cancelled():
    stage = stage_of("preferred_batch_size: 8")
    (request,) = stage.send(1)
    stage.loop.advance(5 * MS)
    stage.dispatcher.cancel(request)
    assert stage.outcomes.repeated == 0
    assert stage.stats.arms[""].cancellations == 0


def test_ten_thousand_requests_with_their_own_timeouts_cost_few_passes_over_the_queue():
    stage = stage_of(
        DELAYED + "default_queue_policy { default_timeout_microseconds: 1000000 }",
        duration_ns=60 * SECOND,
    )
    stage.send(2)
    stage.loop.settle()
    for _ in range(1000):
        stage.send(*[1] * 10)
        stage.loop.advance(100_000)
    stage.loop.advance(2 * SECOND)
    assert stage.stats.arms[""].timeouts == 10_000
    assert stage.loop.timers_set < 200


def mortal_stage(duration_ns: int = MS) -> VirtualStage:
    return VirtualStage(model_config(""), instances=2, duration_ns=duration_ns, mortal=True)


def test_every_dead_instance_fails_its_own_requests_and_is_free_again():
    stage = mortal_stage()
    for instance in stage.instances:
        instance.alive = False
    for _ in range(5):
        stage.send(1, 1)
        stage.loop.advance(3 * MS)
    assert [len(instance.executed) for instance in stage.instances] == [5, 5]
    assert stage.dispatcher.gauges().busy == 0


def test_a_dead_instance_gets_nothing_while_another_lives():
    stage = mortal_stage()
    first, second = stage.instances
    first.alive = False
    stage.send(1, 1, 1)
    stage.loop.advance(10 * MS)
    assert (len(first.executed), len(second.executed)) == (0, 3)


def test_an_instance_that_comes_back_takes_what_waits_although_the_other_is_busy():
    stage = mortal_stage(duration_ns=10 * SECOND)
    first, second = stage.instances
    first.alive = False
    stage.send(1, 1)
    stage.loop.advance(SECOND)
    assert (len(first.executed), len(second.executed)) == (0, 1)
    first.alive = True
    stage.loop.advance(SECOND)
    assert (len(first.executed), len(second.executed)) == (1, 1)
