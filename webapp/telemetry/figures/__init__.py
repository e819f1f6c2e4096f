"""Series → figures in Plotly's JSON form. The only package that knows how charts look. Pure."""

from webapp.telemetry.figures.curves import Curve, curve_figure
from webapp.telemetry.figures.lines import Line, Series, metric_figure, metric_line, time_figure
from webapp.telemetry.figures.looks import CANARY, PALETTE, ROLE_COLORS, STABLE, UNITS, Json
from webapp.telemetry.figures.panels import (
    DEVICE_PANELS,
    GPU_PANELS,
    PAIR_FIGURES,
    PAIR_METRICS,
    VersionSeries,
    device_figure,
    errors_figure,
    latency_figure,
    model_figures,
    rollout_figures,
    share_figure,
    time_split_figure,
    version_figure,
)

__all__ = [
    "CANARY",
    "DEVICE_PANELS",
    "GPU_PANELS",
    "PAIR_FIGURES",
    "PAIR_METRICS",
    "PALETTE",
    "ROLE_COLORS",
    "STABLE",
    "UNITS",
    "Curve",
    "Json",
    "Line",
    "Series",
    "VersionSeries",
    "curve_figure",
    "device_figure",
    "errors_figure",
    "latency_figure",
    "metric_figure",
    "metric_line",
    "model_figures",
    "rollout_figures",
    "share_figure",
    "time_figure",
    "time_split_figure",
    "version_figure",
]
