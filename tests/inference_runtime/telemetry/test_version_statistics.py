"""Protocol 6.1 and 6.2, 9.12 rows 182 and 186: what a version's statistics say."""

from inference_runtime.errors import Cancelled, Internal, Unavailable
from inference_runtime.spec.latency import bucket_of
from inference_runtime.spec.messages import InferResponse, ResponseHead
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.options import MetricsOptions
from inference_runtime.telemetry.statistics_message import model_statistics
from tests.inference_runtime.telemetry.world import MS, Served, request_of


def test_182_a_new_version_has_only_zeros():
    message = model_statistics(Served().stats)
    assert (message.name, message.version) == ("m", "1")
    assert message.last_inference == message.inference_count == message.execution_count == 0
    for field in ("success", "fail", "queue", "compute_input", "compute_infer", "cache_hit"):
        duration = getattr(message.inference_stats, field)
        assert (duration.count, duration.ns) == (0, 0)
    assert not message.batch_stats
    assert not message.response_stats
    assert not message.memory_usage


def test_182_one_request_is_one_of_everything():
    served = Served()
    served.execute(request_of())
    message = model_statistics(served.stats)
    assert message.last_inference == 1_700_000_000_000
    assert (message.inference_count, message.execution_count) == (1, 1)
    stats = message.inference_stats
    assert (stats.success.count, stats.success.ns) == (1, 11 * MS)
    assert (stats.queue.count, stats.queue.ns) == (1, 1 * MS)
    assert (stats.compute_input.count, stats.compute_input.ns) == (1, 2 * MS)
    assert (stats.compute_infer.count, stats.compute_infer.ns) == (1, 3 * MS)
    assert (stats.compute_output.count, stats.compute_output.ns) == (1, 4 * MS)
    (size,) = message.batch_stats
    assert size.batch_size == 1
    assert (size.compute_infer.count, size.compute_infer.ns) == (1, 3 * MS)


def test_each_request_of_a_batch_has_the_whole_batchs_compute_time():
    served = Served()
    served.execute(request_of(rows=1), request_of(rows=8))
    message = model_statistics(served.stats)
    # 6.5: combined → success 2, count 9, executions 1
    assert message.inference_stats.success.count == 2
    assert (message.inference_count, message.execution_count) == (9, 1)
    assert message.inference_stats.compute_infer.ns == 6 * MS
    assert [(s.batch_size, s.compute_infer.ns) for s in message.batch_stats] == [(9, 3 * MS)]


def test_batch_sizes_of_all_devices_are_added_up_in_order():
    served = Served()
    served.execute(request_of(rows=4), gpu=0)
    served.execute(request_of(rows=4), gpu=1)
    served.execute(request_of(rows=2), gpu=1)
    message = model_statistics(served.stats)
    assert [(s.batch_size, s.compute_input.count) for s in message.batch_stats] == [(2, 1), (4, 2)]
    assert message.inference_stats.success.count == 3


def test_failures_after_acceptance_are_in_fail_and_186_refusals_are_not():
    served = Served()
    served.fail(Internal("broken"))
    served.fail(Cancelled(""))
    served.stats.refused(request_of(), Unavailable("Exceeds maximum queue size"))
    stats = model_statistics(served.stats).inference_stats
    assert (stats.fail.count, stats.fail.ns) == (2, 10 * MS)
    assert stats.success.count == 0


def test_a_requests_latency_lands_in_the_histogram_of_its_arm():
    served = Served()
    served.execute(request_of("canary"))
    latency = served.stats.arms["canary"].latency
    assert latency[bucket_of(11 * MS)] == 1
    assert sum(latency) == 1


def test_latencies_above_the_last_bound_are_still_counted():
    served = Served()
    request = request_of()
    request.received_ns = -(10**13)
    served.execute(request)
    assert served.stats.arms[""].latency[-1] == 1


def test_the_arms_of_one_batch_are_kept_apart():
    served = Served()
    requests = [request_of(arm, generation=7) for arm in ("stable", "stable", "canary", "stable")]
    served.execute(*requests)
    arms = served.stats.arms
    assert (arms["stable"].successes, arms["canary"].successes) == (3, 1)
    assert (arms["stable"].executions, arms["canary"].executions) == (1, 0)
    assert arms["stable"].queue_ns == 3 * MS
    assert arms["canary"].compute_ns == 9 * MS
    assert arms["canary"].generation == 7


def test_190_the_first_response_counts_when_it_came_however_the_request_ends():
    served = Served(MetricsOptions(histogram_latencies=True))
    stats = served.stats
    times = ExecutionTimes(1 * MS, 2 * MS, 9 * MS, 10 * MS)
    request = request_of()
    stats.responded(request, InferResponse(ResponseHead("m", "1", ()), ()), times)
    stats.failed_after_acceptance(request, Internal("broken later"), 3000 * MS)
    first = stats.detail.first_responses
    assert (first.counts[0], sum(first.counts), first.total_ms) == (1, 1, 10)


def test_190_an_end_without_a_response_is_no_response():
    served = Served(MetricsOptions(histogram_latencies=True))
    stats = served.stats
    times = ExecutionTimes(1 * MS, 2 * MS, 9 * MS, 10 * MS)
    request = request_of()
    end = InferResponse(ResponseHead("m", "1", (), empty=True), ())
    stats.responded(request, end, times)
    stats.succeeded(stats.device(), times, [request], 10 * MS)
    assert sum(stats.detail.first_responses.counts) == 0
    assert stats.device().successes == 1
