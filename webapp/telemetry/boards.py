"""Boards: several figures over one window, as the page draws them and keeps drawing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from webapp.serving.models import TrafficTable
from webapp.telemetry import figures
from webapp.telemetry.figures import Json, Series, VersionSeries
from webapp.telemetry.frames import SCOPE_METRICS, VERSION_METRICS
from webapp.telemetry.grid import (
    EVERYTHING,
    Grid,
    by_everything,
    by_placed_version,
    by_version_counts,
)
from webapp.telemetry.history import Selection, devices_read, gpu_reasons, grid_read, newest_at
from webapp.telemetry.models import RuntimeSample, ServingSample
from webapp.telemetry.ranges import DEFAULT_RANGE, Window, window_for
from webapp.telemetry.selectors import STALE_AFTER, marks_between, range_length
from webapp.telemetry.serializers import mark_body
from webapp.telemetry.totals import NO_HISTOGRAM

LINES = 8  # versions with a line of their own; the rest is drawn as one
MANY_ROWS = 30_000  # more samples than this are read at the next resolution
Kind = Literal["live", "model", "rollout"]


@dataclass(frozen=True, slots=True)
class Board:
    """What a board is about. `since` replaces the range, `until` stops it from following."""

    kind: Kind = "live"
    model: str = ""
    runtime: str = ""
    range_name: str = DEFAULT_RANGE
    since: datetime | None = None
    until: datetime | None = None
    stable: int | None = None  # rollout: the two versions
    canary: int | None = None

    @property
    def topic(self) -> str:
        if self.model:
            return f"model:{self.model}"
        return f"runtime:{self.runtime}" if self.runtime else "fleet"

    @property
    def url(self) -> str:
        """Where the page fetches the data; the range and the zoom are added by figures.js."""
        asked = {
            "board": self.kind,
            "model": self.model,
            "runtime": self.runtime,
            "stable": self.stable,
            "canary": self.canary,
            "since": self.since.isoformat() if self.since else "",
            "until": self.until.isoformat() if self.until else "",
        }
        query = {key: value for key, value in asked.items() if value not in ("", None)}
        return f"{reverse('telemetry:figures')}?{urlencode(query)}"

    @property
    def placeholders(self) -> Sequence[tuple[str, str]]:
        """Name and title of the figures to come, so that the page does not jump."""
        return _PLACEHOLDERS[self.kind]


_MODEL_PLACEHOLDERS = (
    ("requests_per_second", "Requests per second"),
    ("errors", "Error share by class"),
    ("latency", "Latency"),
    ("time", "Where time goes"),
    ("pending", "Queue depth"),
    ("batch_size", "Realised batch size"),
)
_PLACEHOLDERS: Mapping[Kind, Sequence[tuple[str, str]]] = {
    "model": _MODEL_PLACEHOLDERS,
    "live": (
        *_MODEL_PLACEHOLDERS[:5],
        ("inflight", "In flight"),
        ("batch_size", "Realised batch size"),
        ("cpu_percent", "CPU of the runtime"),
        ("memory_bytes", "Memory of the runtime"),
        ("gpu", "GPU"),
    ),
    "rollout": (
        ("pair_share", "Observed share of the canary"),
        *((name, title) for title, _, name in figures.PAIR_FIGURES),
    ),
}


def board_data(*, board: Board) -> Json:
    now = timezone.now()
    window = _window(board, now)
    selection = Selection(model=board.model, runtime=board.runtime)
    groupings = (
        [by_placed_version] if board.kind == "rollout" else [by_everything, by_version_counts]
    )
    grid = grid_read(window=window, selection=selection, groupings=groupings)
    drawn = _drawn(board, window, grid, selection)
    count = _steps_known(window, newest_at(runtime=board.runtime), now)
    live = board.until is None
    return {
        "topic": board.topic,
        "scope": board.runtime if board.model else "",
        "live": live and window.step == 1,
        "refresh_seconds": max(window.step, 5) if live and window.step > 1 else 0,
        "from": _ms(window.since),
        "span_ms": None if board.since else window.step * window.count * 1000,
        "x": {"first": _ms(window.moment(0)), "step": window.step * 1000, "count": count},
        "unknown": _intervals(window, grid.unknown(EVERYTHING)[:count]),
        "marks": [
            mark_body(mark)
            for mark in marks_between(
                since=window.since, until=now, model=board.model, runtime=board.runtime
            )
        ],
        "figures": [_cut(figure, count) for figure in drawn],
    }


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _window(board: Board, now: datetime) -> Window:
    until = min(board.until or now, now)
    length = range_length(name=board.range_name)
    if board.since is not None:
        least = timedelta(seconds=60 if board.until is None else 1)
        length = max(until - board.since, least)
    window = window_for(length=length, until=until, now=now)
    rows = ServingSample.objects.filter(seconds=1, at__gt=window.since, at__lte=window.until)
    if window.step == 1 and not board.model and rows.count() > MANY_ROWS:
        return window_for(length=length, until=until, now=now, finest=10)
    return window


def _steps_known(window: Window, newest: datetime | None, now: datetime) -> int:
    """Without the last steps if their samples are merely still to come."""
    if newest is None or now - newest > STALE_AFTER:
        return window.count
    return min(max(window.index_of(newest) + 1, 1), window.count)


def _intervals(window: Window, unknown: Sequence[bool]) -> list[list[int]]:
    """The intervals nothing is known of, in ms, from the last moment that is known."""
    intervals: list[list[int]] = []
    for index, is_unknown in enumerate(unknown):
        if not is_unknown:
            continue
        start, end = _ms(window.moment(index - 1)), _ms(window.moment(index))
        if intervals and intervals[-1][1] == start:
            intervals[-1][1] = end
        else:
            intervals.append([start, end])
    return intervals


def _cut(figure: Json, count: int) -> Json:
    data = [{**trace, "y": trace["y"][:count]} for trace in figure["data"]]
    return {**figure, "data": data}


# -- figures of each kind ---------------------------------------------------------------------
def _drawn(board: Board, window: Window, grid: Grid, selection: Selection) -> list[Json]:
    if board.kind == "rollout":
        return _rollout_figures(board, grid)
    everything = grid.series(EVERYTHING, *SCOPE_METRICS)
    totals = grid.totals(EVERYTHING)
    reason = NO_HISTOGRAM if totals.successes and not totals.latency else ""
    versions = _versions(board, grid)
    if board.kind == "model":
        return figures.model_figures(versions=versions, everything=everything, reason=reason)
    return [
        _by_version("requests_per_second", "Requests per second", versions, everything, grid),
        figures.errors_figure(everything),
        figures.latency_figure(everything, reason=reason),
        figures.time_split_figure(everything),
        _by_version("pending", "Queue depth", versions, everything, grid),
        _by_version("inflight", "In flight", versions, everything, grid),
        figures.version_figure("batch_size", versions, title="Realised batch size", stacked=False),
        *_device_figures(window, selection),
    ]


def _by_version(
    metric: str,
    title: str,
    versions: Sequence[VersionSeries],
    everything: Mapping[str, Series],
    grid: Grid,
) -> Json:
    more = len(grid.busiest()) - 1 > len(versions)
    rest = everything[metric] if more else None
    return figures.version_figure(metric, versions, rest=rest, title=title)


def _versions(board: Board, grid: Grid) -> list[VersionSeries]:
    keys: list[Any] = [key for key in grid.busiest() if key != EVERYTHING][:LINES]
    roles = _roles(board.model) if board.model else {}
    return [
        VersionSeries(
            model=model,
            version=version,
            series=grid.series((model, version), *VERSION_METRICS),
            role=roles.get(version, ""),
            short=bool(board.model),
        )
        for model, version in sorted(keys)
    ]


def _roles(model: str) -> dict[int, str]:
    table = TrafficTable.objects.filter(model__name=model).first()
    return {int(arm["version"]): str(arm["role"]) for arm in table.arms} if table else {}


def _rollout_figures(board: Board, grid: Grid) -> list[Json]:
    versions = {
        role: number
        for role, number in (("stable", board.stable), ("canary", board.canary))
        if number is not None
    }
    series = {role: grid.series(number, *figures.PAIR_METRICS) for role, number in versions.items()}
    drawn = figures.rollout_figures(series, versions=versions)
    if len(series) == 2:
        drawn.insert(0, figures.share_figure(_share_of_canary(series), version=versions["canary"]))
    return drawn


def _share_of_canary(series: Mapping[str, Mapping[str, Series]]) -> Series:
    stable, canary = (series[role]["requests_per_second"] for role in ("stable", "canary"))
    return [
        None if s is None or c is None or s + c == 0 else round(c / (s + c), 4)
        for s, c in zip(stable, canary, strict=True)
    ]


def _device_figures(window: Window, selection: Selection) -> list[Json]:
    devices = devices_read(window=window, selection=replace(selection, model=""))
    names = _device_names()
    drawn = [
        figures.device_figure(panel, devices.get(panel.metric, {}), names)
        for panel in figures.DEVICE_PANELS
    ]
    gpus = [panel for panel in figures.GPU_PANELS if _any_value(devices.get(panel.metric, {}))]
    drawn += [figures.device_figure(panel, devices[panel.metric], names) for panel in gpus]
    return drawn if gpus else [*drawn, _no_gpu(gpu_reasons(runtime=selection.runtime))]


def _any_value(devices: Mapping[str, Series]) -> bool:
    return any(value is not None for series in devices.values() for value in series)


def _no_gpu(reasons: Mapping[str, str]) -> Json:
    several = len(reasons) > 1
    lines = [f"{name}: {why}" if several else why for name, why in reasons.items()]
    text = "No GPU here: " + "; ".join(lines) if lines else "No runtime has reported devices yet."
    figure = figures.time_figure(name="gpu", title="GPU", unit="count", formula="", lines=[])
    return {**figure, "empty": text}


def _device_names() -> dict[str, str]:
    """ "runtime|uuid" → what to call the device."""
    names: dict[str, str] = {}
    newest = newest_at()
    if newest is None:
        return names
    since = newest - STALE_AFTER
    for sample in RuntimeSample.objects.filter(seconds=1, at__gt=since).select_related("runtime"):
        for position, gpu in enumerate(sample.gpus):
            key = f"{sample.runtime.name}|{gpu.get('uuid')}"
            names[key] = f"gpu:{gpu.get('index', position)} on {sample.runtime.name}"
    return names
