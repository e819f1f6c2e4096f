"""The panels of the live page, the model page and the rollout page. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webapp.telemetry.figures.lines import Line, Series, metric_figure, metric_line, time_figure
from webapp.telemetry.figures.looks import PALETTE, REST, ROLE_COLORS, Json
from webapp.telemetry.totals import METRICS

_ERROR_COLORS = {
    "failure_share": "var(--bad-line)",
    "rejection_share": "var(--series-3)",
    "timeout_share": "var(--series-5)",
    "client_fault_share": "var(--series-6)",
    "cancellation_share": REST,
}
_PERCENTILE_LOOKS = {
    "latency_p50_ms": ("var(--compute-line)", 1.5),
    "latency_p95_ms": ("var(--queue-line)", 1.5),
    "latency_p99_ms": ("var(--ink)", 1.5),
}


# -- panels over everything selected ----------------------------------------------------------
def errors_figure(series: Mapping[str, Series]) -> Json:
    lines = [
        metric_line(metric, series[metric], color=color) for metric, color in _ERROR_COLORS.items()
    ]
    return time_figure(
        name="errors",
        title="Error share by class",
        unit="share",
        formula="Δ requests that ended so ÷ Δ requests",
        lines=lines,
        stacked=True,
    )


def latency_figure(series: Mapping[str, Series], *, reason: str = "") -> Json:
    lines = [
        metric_line(metric, series[metric], color=color, width=width)
        for metric, (color, width) in _PERCENTILE_LOOKS.items()
    ]
    figure = time_figure(
        name="latency",
        title="Latency",
        unit="ms",
        formula="percentiles of the merged histogram, successful requests",
        lines=lines,
    )
    band = {"lower": "latency_p50_ms", "upper": "latency_p99_ms", "color": "var(--compute-line)"}
    return {**figure, "bands": [band], "note": reason}


def time_split_figure(series: Mapping[str, Series]) -> Json:
    lines = [
        metric_line("compute_ms", series["compute_ms"], color="var(--compute-line)"),
        metric_line("queue_ms", series["queue_ms"], color="var(--queue-line)"),
    ]
    return time_figure(
        name="time",
        title="Where time goes",
        unit="ms",
        formula="Δ time summed over successful requests ÷ their number",
        lines=lines,
        stacked=True,
    )


# -- panels by version ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class VersionSeries:
    model: str
    version: int
    series: Mapping[str, Series]
    role: str = ""  # "stable" or "canary" where that is what the reader looks at
    short: bool = False  # one model only: its name goes without saying

    @property
    def name(self) -> str:
        number = f"v{self.version}" if self.short else f"{self.model} v{self.version}"
        return f"{number} {self.role}".strip()


def version_figure(
    metric: str,
    versions: Sequence[VersionSeries],
    *,
    rest: Series | None = None,
    title: str = "",
    stacked: bool = True,
) -> Json:
    """`rest`: the total of all versions, when some have no line of their own."""
    colors = iter(PALETTE * (len(versions) // len(PALETTE) + 1))
    lines = [
        metric_line(
            metric,
            one.series[metric],
            key=f"{metric}|{one.model}|{one.version}",
            name=one.name,
            color=ROLE_COLORS.get(one.role) or next(colors),
        )
        for one in versions
    ]
    if rest is not None:
        shown = [line.values for line in lines]
        left = [_left(total, [values[i] for values in shown]) for i, total in enumerate(rest)]
        lines.append(metric_line(metric, left, key=f"rest:{metric}", name="all others", color=REST))
    return metric_figure(metric, lines, title=title, stacked=stacked)


def _left(total: float | None, shown: Sequence[float | None]) -> float | None:
    return None if total is None else max(total - sum(value or 0 for value in shown), 0.0)


# -- panels of processes and devices ----------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DevicePanel:
    metric: str
    title: str
    unit: str
    formula: str


DEVICE_PANELS = (
    DevicePanel(
        "cpu_percent", "CPU of the runtime", "percent", "Δ CPU time ÷ time; 100% is one core"
    ),
    DevicePanel("memory_bytes", "Memory of the runtime", "bytes", "resident memory of the process"),
)
GPU_PANELS = (
    DevicePanel("gpu_utilization", "GPU utilisation", "fraction", "share of time a kernel ran (NVML)"),
    DevicePanel("gpu_memory_bytes", "GPU memory used", "bytes", "memory in use on the device (NVML)"),
    DevicePanel("gpu_power_watts", "GPU power", "watts", "power drawn by the device (NVML)"),
    DevicePanel("gpu_temperature_celsius", "GPU temperature", "celsius", "temperature of the device (NVML)"),
)  # fmt: skip


def device_figure(
    panel: DevicePanel, devices: Mapping[str, Series], names: Mapping[str, str]
) -> Json:
    lines = [
        Line(f"{panel.metric}|{device}", names.get(device, device), color, values)
        for (device, values), color in zip(devices.items(), _colors(len(devices)), strict=True)
    ]
    return time_figure(
        name=panel.metric,
        title=panel.title,
        unit=panel.unit,
        formula=panel.formula,
        lines=lines,
    )


def _colors(count: int) -> list[str]:
    return [PALETTE[index % len(PALETTE)] for index in range(count)]


def share_figure(values: Series, *, version: int) -> Json:
    line = Line(f"observed_share@{version}", "observed", ROLE_COLORS["canary"], values, width=2.0)
    return time_figure(
        name="pair_share",
        title="Observed share of the canary",
        unit="share",
        formula="requests answered by the canary ÷ requests of stable and canary",
        lines=[line],
    )


# -- stable beside canary ---------------------------------------------------------------------
PAIR_FIGURES: tuple[tuple[str, tuple[tuple[str, str], ...], str], ...] = (
    ("Requests/s, stable and canary", (("requests_per_second", "solid"),), "pair_requests"),
    ("Error share, stable and canary", (("error_share", "solid"),), "pair_errors"),
    ("Latency, stable and canary",
     (("latency_p50_ms", "dot"), ("latency_p95_ms", "dash"), ("latency_p99_ms", "solid")),
     "pair_latency"),
    ("Queue time, stable and canary", (("queue_ms", "solid"),), "pair_queue"),
    ("Compute time, stable and canary", (("compute_ms", "solid"),), "pair_compute"),
)  # fmt: skip
PAIR_METRICS = tuple(metric for _, metrics, _ in PAIR_FIGURES for metric, _ in metrics)


def rollout_figures(
    series: Mapping[str, Mapping[str, Series]], *, versions: Mapping[str, int]
) -> list[Json]:
    """Role → metric → series; every chart shows both, in the colours they have everywhere.

    A line follows its version, so that after a promotion the canary is seen to have all requests.
    """
    figures = []
    for title, metrics, name in PAIR_FIGURES:
        lines = [
            metric_line(
                metric,
                series[role][metric],
                key=f"{metric}@{version}",
                name=_pair_name(f"{role} v{version}", metric, several=len(metrics) > 1),
                color=ROLE_COLORS[role],
                dash=dash,
                width=2.0 if dash == "solid" else 1.25,
            )
            for role, version in versions.items()
            for metric, dash in metrics
        ]
        figures.append(metric_figure(metrics[-1][0], lines, title=title, name=name))
    return figures


def _pair_name(version: str, metric: str, *, several: bool) -> str:
    return f"{version} {METRICS[metric].title}" if several else version


# -- one model --------------------------------------------------------------------------------
def model_figures(
    *,
    versions: Sequence[VersionSeries],
    everything: Mapping[str, Series],
    reason: str = "",
) -> list[Json]:
    """The few charts that tell how a model does; `versions` need the metrics of VERSION_PANELS."""
    return [
        version_figure("requests_per_second", versions, title="Requests/s by version"),
        errors_figure(everything),
        latency_figure(everything, reason=reason),
        time_split_figure(everything),
        version_figure("pending", versions, title="Queue depth by version"),
        version_figure("batch_size", versions, title="Realised batch size", stacked=False),
    ]
