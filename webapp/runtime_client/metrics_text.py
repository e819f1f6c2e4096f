"""Prometheus text format → samples. Pure; lines it does not understand are skipped."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\s*(\{.*\})?\s+(\S+)(?:\s+-?\d+)?\s*\Z")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?\s*')
_ESCAPES = {r"\n": "\n", r"\"": '"', r"\\": "\\"}
_ESCAPE = re.compile(r'\\[n"\\]')


@dataclass(frozen=True, slots=True)
class MetricSample:
    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str) -> Iterator[MetricSample]:
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith("#") and (sample := _sample(line)) is not None:
            yield sample


def _sample(line: str) -> MetricSample | None:
    match = _LINE.match(line)
    if match is None:
        return None
    name, braces, raw = match.groups()
    labels = _labels(braces[1:-1]) if braces else {}
    value = _value(raw)
    if labels is None or value is None:
        return None
    return MetricSample(name, labels, value)


def _labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    text = text.strip()
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            return None
        labels[match[1]] = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], match[2])
        at = match.end()
    return labels


def _value(raw: str) -> float | None:
    special = {"+Inf": math.inf, "-Inf": -math.inf, "Inf": math.inf, "NaN": math.nan}
    if raw in special:
        return special[raw]
    try:
        return float(raw)
    except ValueError:
        return None
