"""What of the telemetry is switched on: the values of the `--*-metrics` and `--metrics-*` options."""

from dataclasses import dataclass

# quantile and the error Triton's default tolerates for it; ours is 5% throughout
DEFAULT_QUANTILES: tuple[float, ...] = (0.5, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    gpu: bool = True  # --allow-gpu-metrics
    cpu: bool = True  # --allow-cpu-metrics
    interval_ns: int = 2_000_000_000  # --metrics-interval-ms: how old a gauge of the machine may be
    pinned_pool_bytes: int = 256 << 20  # what is reported; there is no such pool here
    counter_latencies: bool = True
    histogram_latencies: bool = False
    summary_latencies: bool = False
    quantiles: tuple[float, ...] = DEFAULT_QUANTILES
