"""Writes the measured ratios into bench/RESULTS.md, between its markers; notes around them stay."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"


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


def _ratios(upper: Sequence[float], lower: Sequence[float]) -> str:
    values = [a / b for a, b in zip(upper, lower, strict=True)]
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"


def write(path: Path, rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    lines = [
        _BEGIN,
        "",
        "; ".join(f"{name} {value}" for name, value in facts.items()) + ".",
        "",
        "| model | protocol | connections | served ÷ bare, batch 1 | served ÷ bare, best batch | "
        "mean ms | server CPU µs/request | failed |",
        "|---|---|---|---|---|---|---|---|",
        *(row.line() for row in rows),
        "",
        _END,
    ]
    block = "\n".join(lines)
    text = path.read_text() if path.exists() else f"# Results\n\n{_BEGIN}\n{_END}\n"
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    path.write_text(before + block + after)
    return block
