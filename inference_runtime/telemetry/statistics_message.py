"""The statistics extension's answer for one version, as the protocol's message."""

from inference_runtime import pb
from inference_runtime.spec.model_identity import bare_name
from inference_runtime.telemetry.cache_stats import VersionCacheStats
from inference_runtime.telemetry.response_stats import CountAndTime, ResponseStats
from inference_runtime.telemetry.stats import VersionStats


def model_statistics(stats: VersionStats) -> pb.ModelStatistics:
    devices = list(stats.devices.values())
    successes = sum(device.successes for device in devices)
    cache = stats.cache or VersionCacheStats()

    def answered(ns: int) -> pb.StatisticDuration:
        return pb.StatisticDuration(count=successes, ns=ns)

    def executed(ns: int) -> pb.StatisticDuration:
        return pb.StatisticDuration(count=successes - cache.hits, ns=ns)

    message = pb.ModelStatistics(
        name=bare_name(stats.model),
        version=str(stats.version),
        last_inference=stats.last_inference_ms,
        inference_count=sum(device.inferences for device in devices),
        execution_count=sum(device.executions for device in devices),
        inference_stats=pb.InferStatistics(
            success=answered(sum(device.success_ns for device in devices)),
            fail=pb.StatisticDuration(count=stats.failed, ns=stats.failed_ns),
            queue=answered(sum(device.queue_ns for device in devices)),
            compute_input=executed(sum(device.input_ns for device in devices)),
            compute_infer=executed(sum(device.infer_ns for device in devices)),
            compute_output=executed(sum(device.output_ns for device in devices)),
            cache_hit=pb.StatisticDuration(count=cache.hits, ns=cache.hit_ns),
            cache_miss=pb.StatisticDuration(count=cache.misses, ns=cache.miss_ns),
        ),
    )
    message.batch_stats.extend(_batch_stats(stats))
    for index, responses in sorted(stats.responses.by_index.items()):
        message.response_stats[str(index)].CopyFrom(_response_stats(responses))
    return message


def _response_stats(stats: ResponseStats) -> pb.InferResponseStatistics:
    def duration(one: CountAndTime) -> pb.StatisticDuration:
        return pb.StatisticDuration(count=one.count, ns=one.ns)

    return pb.InferResponseStatistics(
        compute_infer=duration(stats.compute_infer),
        compute_output=duration(stats.compute_output),
        success=duration(stats.success),
        fail=duration(stats.fail),
        empty_response=duration(stats.empty_response),
        cancel=duration(stats.cancel),
    )


def _batch_stats(stats: VersionStats) -> list[pb.InferBatchStatistics]:
    totals: dict[int, list[int]] = {}
    for device in stats.devices.values():
        for rows, size in device.batch_sizes.items():
            total = totals.setdefault(rows, [0, 0, 0, 0])
            total[0] += size.executions
            total[1] += size.input_ns
            total[2] += size.infer_ns
            total[3] += size.output_ns
    return [
        pb.InferBatchStatistics(
            batch_size=rows,
            compute_input=pb.StatisticDuration(count=executions, ns=input_ns),
            compute_infer=pb.StatisticDuration(count=executions, ns=infer_ns),
            compute_output=pb.StatisticDuration(count=executions, ns=output_ns),
        )
        for rows, (executions, input_ns, infer_ns, output_ns) in sorted(totals.items())
    ]
