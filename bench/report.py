"""Writes the measured ratios into bench/RESULTS.md, between its markers; notes around them stay."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.goals import GOALS, Goal, Measured

_GOALS, _MEASURED, _SHARED = "goals", "measured", "shared memory"


@dataclass
class Row:
    """One subject, protocol and concurrency; a value for each round."""

    subject: str
    protocol: str
    connections: int
    served: list[float] = field(default_factory=list)
    bare_single: list[float] = field(default_factory=list)
    bare_batched: list[float] = field(default_factory=list)
    mean_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    failed: int = 0

    def line(self) -> str:
        ratio_single = _ratios(self.served, self.bare_single)
        ratio_batched = _ratios(self.served, self.bare_batched)
        return (
            f"| {self.subject} | {self.protocol} | {self.connections} | {ratio_single} | "
            f"{ratio_batched} | {statistics.median(self.mean_ms):.2f} | "
            f"{statistics.median(self.cpu_us):.0f} | {self.failed} |"
        )


@dataclass
class RegionRow:
    """The same item by shared memory and over the wire; a value for each round."""

    protocol: str
    connections: int
    by_region: list[float] = field(default_factory=list)
    by_wire: list[float] = field(default_factory=list)
    region_cpu_us: list[float] = field(default_factory=list)
    wire_cpu_us: list[float] = field(default_factory=list)
    failed: int = 0

    def line(self) -> str:
        return (
            f"| {self.protocol} | {self.connections} | {_ratios(self.by_region, self.by_wire)} | "
            f"{statistics.median(self.region_cpu_us):.0f} | {statistics.median(self.wire_cpu_us):.0f} | "
            f"{self.failed} |"
        )


def _ratios(upper: Sequence[float], lower: Sequence[float]) -> str:
    values = [a / b for a, b in zip(upper, lower, strict=True)]
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"


def write(path: Path, rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    lines = [
        "; ".join(f"{name} {value}" for name, value in facts.items()) + ".",
        "",
        "| model | protocol | connections | served ÷ bare, batch 1 | served ÷ bare, best batch | "
        "mean ms | server CPU µs/request | failed |",
        "|---|---|---|---|---|---|---|---|",
        *(row.line() for row in rows),
    ]
    return _put(path, _MEASURED, lines)


def write_regions(path: Path, rows: Sequence[RegionRow], facts: Mapping[str, str]) -> str:
    lines = [
        "; ".join(f"{name} {value}" for name, value in facts.items()) + ".",
        "",
        "| protocol | connections | by shared memory ÷ over the wire | server CPU µs/request | "
        "over the wire | failed |",
        "|---|---|---|---|---|---|",
        *(row.line() for row in rows),
    ]
    return _put(path, _SHARED, lines)


def write_goals(path: Path, measured: Measured, facts: Mapping[str, str]) -> str:
    lines = [
        "; ".join(f"{name} {value}" for name, value in facts.items()) + ".",
        "",
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
    return _put(path, _GOALS, lines)


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


def _put(path: Path, mark: str, lines: Sequence[str]) -> str:
    """Between the two markers of that name, at the end where there are none yet."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    block = "\n".join((begin, "", *lines, "", end))
    text = path.read_text() if path.exists() else "# Results\n"
    if begin not in text:
        text += f"\n{begin}\n{end}\n"
    before, _, rest = text.partition(begin)
    path.write_text(before + block + rest.partition(end)[2])
    return block
