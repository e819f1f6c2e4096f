"""A series as a small inline SVG for tables. Pure; a gap stays a gap."""

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 96, 24
_EDGE = 2.0


def sparkline_svg(
    values: Sequence[float | None], *, label: str, color: str = "var(--stable-line)"
) -> str:
    """From 0 to the highest value; `label` says in words what it shows, for hover and readers."""
    head = (
        f'<svg class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>'
    )
    return head + "".join(_piece(piece, color) for piece in _pieces(values)) + "</svg>"


def _pieces(values: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """Points in the picture, one list per unbroken run."""
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    step = WIDTH / max(len(values) - 1, 1)
    pieces: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            pieces.append([])
            continue
        y = HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * max(value, 0.0) / top
        pieces[-1].append((round(index * step, 1), round(y, 1)))
    return [piece for piece in pieces if piece]


def _piece(points: list[tuple[float, float]], color: str) -> str:
    if len(points) == 1:
        x, y = points[0]
        points = [(x - 0.5, y), (x + 0.5, y)]
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{escape(color)}" stroke-width="1.5" '
        'vector-effect="non-scaling-stroke"/>'
    )
