"""Evidence over time as a line toward its limit, drawn on the server. Pure, SVG as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 300, 56
_TOP, _BOTTOM = 8, 50


@dataclass(frozen=True, slots=True)
class Point:
    at: datetime
    progress: float  # 0 no evidence, 1 the limit


def evidence_svg(points: Sequence[Point], *, title: str, caution: float) -> str:
    """`caution`: where the rollout stops to go on by itself, as a part of the way to the limit."""
    reached = max((point.progress for point in points), default=0.0)
    words = f"{title}: {100 * reached:.0f}% of the way to the limit at most."
    lines = [
        f"<title>{escape(words)}</title>",
        _level(1.0, "evidence-limit"),
        _level(caution, "evidence-caution"),
        _level(0.0, "evidence-base"),
    ]
    if points:
        lines.append(f'<path class="evidence-line" d="{_path(points)}"/>')
    return (
        f'<svg class="evidence-chart" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label={quoteattr(words)}>{"".join(lines)}</svg>'
    )


def _path(points: Sequence[Point]) -> str:
    start, end = points[0].at.timestamp(), points[-1].at.timestamp()
    span = max(end - start, 1.0)
    steps = [
        f"{WIDTH * (point.at.timestamp() - start) / span:.1f} {_y(point.progress):.1f}"
        for point in points
    ]
    if len(steps) == 1:
        steps.append(f"{WIDTH} {_y(points[0].progress):.1f}")
    return "M" + "L".join(steps)


def _y(progress: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * min(max(progress, 0.0), 1.0)


def _level(progress: float, kind: str) -> str:
    y = _y(progress)
    return f'<path class="{kind}" d="M0 {y:.1f}H{WIDTH}"/>'
