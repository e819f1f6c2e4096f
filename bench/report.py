"""Writes the measured ratios into bench/RESULTS.md, between its markers; notes around them stay."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.goals import GOALS, Goal, Measured
from bench.series import Series

_GOALS, _MEASURED, _SHARED = "goals", "measured", "shared memory"


@dataclass
class Row:
    """One subject, protocol and concurrency; a value for each round."""

    subject: str
    protocol: str
    connections: int
    served: Series = field(default_factory=Series)
    bare_single: list[float] = field(default_factory=list)
    bare_batched: list[float] = field(default_factory=list)

    def line(self) -> str:
        served = self.served
        ratio_single = _ratios(served.per_second, self.bare_single)
        ratio_batched = _ratios(served.per_second, self.bare_batched)
        return (
            f"| {self.subject} | {self.protocol} | {self.connections} | {ratio_single} | "
            f"{ratio_batched} | {statistics.median(served.mean_ms):.2f} | "
            f"{statistics.median(served.cpu_us):.0f} | {served.failed} |"
        )


@dataclass
class RegionRow:
    """The same item by shared memory and over the wire; a value for each round."""

    protocol: str
    connections: int
    by_region: Series = field(default_factory=Series)
    by_wire: Series = field(default_factory=Series)

    @property
    def failed(self) -> int:
        return self.by_region.failed + self.by_wire.failed

    def line(self) -> str:
        ratios = _ratios(self.by_region.per_second, self.by_wire.per_second)
        costs = (f"{statistics.median(s.cpu_us):.0f}" for s in (self.by_region, self.by_wire))
        cells = (self.protocol, self.connections, ratios, *costs, self.failed)
        return f"| {' | '.join(map(str, cells))} |"


def _ratios(upper: Sequence[float], lower: Sequence[float]) -> str:
    values = [a / b for a, b in zip(upper, lower, strict=True)]
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"


def write(path: Path, rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    lines = [
        "| model | protocol | connections | served ÷ bare, batch 1 | served ÷ bare, best batch | "
        "mean ms | server CPU µs/request | failed |",
        "|---|---|---|---|---|---|---|---|",
        *(row.line() for row in rows),
    ]
    return _put(path, _MEASURED, facts, lines)


def write_regions(path: Path, rows: Sequence[RegionRow], facts: Mapping[str, str]) -> str:
    lines = [
        "| protocol | connections | by shared memory ÷ over the wire | server CPU µs/request | "
        "over the wire | failed |",
        "|---|---|---|---|---|---|",
        *(row.line() for row in rows),
    ]
    return _put(path, _SHARED, facts, lines)


def write_goals(path: Path, measured: Measured, facts: Mapping[str, str]) -> str:
    lines = [
        "| row | load | runtime ÷ | ratio | must | aim | |",
        "|---|---|---|---|---|---|---|",
        *(_goal_line(goal, measured) for goal in GOALS),
        "",
        *map(_skipped, measured.skipped),
        *([""] if measured.skipped else []),
        "| load | server | requests/s | mean ms | server CPU µs/request | failed |",
        "|---|---|---|---|---|---|",
    ]
    for (case, server), series in measured.series.items():
        if not series.cpu_us:
            lines.append(f"| {case} | {server} | {_spread(series.per_second)} | | | |")
            continue
        lines.append(
            f"| {case} | {server} | {_spread(series.per_second)} | "
            f"{statistics.median(series.mean_ms):.2f} | {statistics.median(series.cpu_us):.1f} | "
            f"{series.failed} |"
        )
    return _put(path, _GOALS, facts, lines)


def _goal_line(goal: Goal, measured: Measured) -> str:
    ratios = measured.ratios(goal)
    start = f"| {goal.row} | {goal.case} | {' or '.join(goal.against)} | "
    end = f"{goal.must:g} | {goal.aim:g} | "
    if not ratios:
        return f"{start}not measured | {end}|"
    middle = statistics.median(ratios)
    verdict = "aim" if middle >= goal.aim else "must" if middle >= goal.must else "**missed**"
    return f"{start}{middle:.2f} [{min(ratios):.2f}..{max(ratios):.2f}] | {end}{verdict} |"


def _skipped(text: str) -> str:
    return f"Not measured: {text}."


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.0f} [{min(values):.0f}..{max(values):.0f}]"


def _put(path: Path, mark: str, facts: Mapping[str, str], lines: Sequence[str]) -> str:
    """Between the two markers of that name, at the end where there are none yet."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    told = "; ".join(f"{name} {value}" for name, value in facts.items()) + "."
    block = "\n".join((begin, "", told, "", *lines, "", end))
    text = path.read_text() if path.exists() else "# Results\n"
    if begin not in text:
        text += f"\n{begin}\n{end}\n"
    before, _, rest = text.partition(begin)
    path.write_text(before + block + rest.partition(end)[2])
    return block
