"""The track diagram: who has traffic, what waits, where the switch stands. Pure, SVG as text.

Every model is drawn as tracks. Stable is the heavy line that goes straight on, a canary branches
off at a switch. The width of a line is its observed share, the ghost behind it its configured
share. Colours and strokes come from classes (see static/css/track.css), so both themes and print
get their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

Role = Literal["stable", "canary", "shadow", "idle"]
Lamp = Literal["good", "busy", "bad", "idle"]

_ROLE_WORDS: Mapping[str, str] = {
    "stable": "stable",
    "canary": "canary",
    "shadow": "shadow",
    "idle": "no traffic",
}


@dataclass(frozen=True, slots=True)
class Arm:
    """One version as a station on its own track. Shares are 0..1; unknown is None, never 0."""

    label: str
    role: Role
    configured: float = 0.0
    observed: float | None = None
    lamp: Lamp = "good"
    lamp_word: str = "available"

    @property
    def share(self) -> float:
        return self.configured if self.observed is None else self.observed


@dataclass(frozen=True, slots=True)
class Diagram:
    model: str
    arms: tuple[Arm, ...] = ()
    next_share: float | None = None  # where the canary's next step leads
    rate_text: str = ""  # such as "240/s"


def diagram_of_traffic(traffic: Mapping[str, Any], *, rate_text: str = "") -> Diagram:
    """From the API's `traffic` shape; arms may carry `lamp` and `lamp_word` besides."""
    arms = tuple(
        Arm(
            label=_label(arm),
            role=arm["role"] if arm["role"] in _ROLE_WORDS else "idle",
            configured=arm.get("configured") or 0.0,
            observed=arm.get("observed"),
            lamp=arm.get("lamp", "good"),
            lamp_word=arm.get("lamp_word", "available"),
        )
        for arm in traffic["arms"]
    )
    return Diagram(traffic["model"], arms, rate_text=rate_text)


def _label(arm: Mapping[str, Any]) -> str:
    variant = arm.get("variant")
    return f"v{arm['version']} {variant}" if variant else f"v{arm['version']}"


def percent_text(share: float | None) -> str:
    if share is None:
        return "–"
    percent = 100 * share
    return f"{percent:.0f}%" if abs(percent - round(percent)) < 0.005 else f"{percent:.3g}%"


def summary_text(diagram: Diagram) -> str:
    """The whole diagram as a sentence, for those who do not see it."""
    if not diagram.arms:
        return "No version has traffic."
    parts = []
    for arm in diagram.arms:
        words = [f"{arm.label}, {_ROLE_WORDS[arm.role]}, {arm.lamp_word}"]
        if arm.role in {"stable", "canary"}:
            seen = percent_text(arm.observed) if arm.observed is not None else "not known yet"
            words.append(f"configured {percent_text(arm.configured)}, observed {seen}")
        parts.append(": ".join(words))
    if diagram.next_share is not None:
        parts.append(f"next step {percent_text(diagram.next_share)}")
    return "; ".join(parts) + "."


# -- drawing --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    width: float
    first_y: float
    gap_y: float
    start_x: float  # where the trunk begins
    switch_x: float
    branch_x: float  # where a branch runs level again
    end_x: float  # the stations
    thinnest: float
    thickest: float
    station: float  # radius
    bottom: float  # below the last track

    def height(self, tracks: int) -> float:
        return self.first_y + self.gap_y * max(tracks - 1, 0) + self.bottom

    def y(self, index: int) -> float:
        return self.first_y + self.gap_y * index

    def thickness(self, share: float) -> float:
        """Linear in the share; the smallest share is still a line one can see."""
        return self.thinnest + (self.thickest - self.thinnest) * min(max(share, 0.0), 1.0)


_SMALL = _Layout(120, 12, 0, 3, 26, 52, 112, 1, 7, 3.2, 12)
_SMALL_PAIR = _Layout(120, 7.5, 9.5, 3, 26, 52, 112, 1, 7, 3.2, 7)
_WIDE = _Layout(760, 40, 88, 84, 190, 318, 560, 1.5, 26, 9, 34)
_NARROW = _Layout(340, 52, 100, 8, 52, 104, 158, 1.5, 22, 8, 32)


def small_svg(diagram: Diagram) -> str:
    """120 × 24, for rows of a table. At most two tracks; the summary names all."""
    arms = diagram.arms[:2]
    layout = _SMALL_PAIR if len(arms) > 1 else _SMALL
    return _svg(diagram, arms, layout, kind="small", height=24)


def large_svg(diagram: Diagram) -> str:
    """For pages: a wide drawing and a narrow one; the stylesheet shows the one that fits."""
    wide = _svg(diagram, diagram.arms, _WIDE, kind="wide")
    narrow = _svg(diagram, diagram.arms, _NARROW, kind="narrow")
    return f'<div class="track-frame">{wide}{narrow}</div>'


def _svg(
    diagram: Diagram, arms: Sequence[Arm], layout: _Layout, *, kind: str, height: float = 0
) -> str:
    size = height or layout.height(len(arms))
    title, summary = f"Traffic of {diagram.model}", summary_text(diagram)
    inside = [f"<title>{escape(title)}</title><desc>{escape(summary)}</desc>"]
    if arms:
        inside += _tracks(diagram, arms, layout)
        inside += [_station(arm, layout, index) for index, arm in enumerate(arms)]
        if kind != "small":
            inside += _labels(diagram, arms, layout)
    else:
        inside.append(_empty(layout, small=kind == "small"))
    dimensions = f' width="{layout.width:g}" height="{size:g}"' if kind == "small" else ""
    return (
        f'<svg class="track track-{kind}" viewBox="0 0 {layout.width:g} {size:g}"{dimensions} '
        f'role="img" aria-label={quoteattr(f"{title}. {summary}")}>{"".join(inside)}</svg>'
    )


def _tracks(diagram: Diagram, arms: Sequence[Arm], layout: _Layout) -> list[str]:
    trunk = layout.thickness(1.0)
    y = layout.y(0)
    parts = []
    branches = [arm for arm in arms[1:] if arm.role != "idle"]
    if branches:
        parts.append(_line(f"M{layout.start_x:g} {y:g}H{layout.switch_x:g}", "track-trunk", trunk))
    for index, arm in reversed(list(enumerate(arms))):
        parts += _track(diagram, arm, layout, index, split=bool(branches))
    if branches:
        parts.append(_switch(layout))
    return parts


def _track(diagram: Diagram, arm: Arm, layout: _Layout, index: int, *, split: bool) -> list[str]:
    kind = f"track-{arm.role}"
    if arm.role == "idle":
        return [_line(_siding(layout, index), f"track-line {kind}", layout.thinnest)]
    path = _path(layout, index, arm.share, split=split)
    parts = []
    leads_to = diagram.next_share
    if arm.role == "canary" and leads_to is not None and leads_to > arm.share:
        width = layout.thickness(leads_to)
        parts.append(
            _line(_path(layout, index, leads_to, split=split), f"track-next {kind}", width)
        )
    if arm.role == "shadow":
        return [*parts, _line(path, f"track-line {kind}", layout.thinnest * 1.5)]
    if arm.configured > 0:
        ghost = _path(layout, index, arm.configured, split=split)
        parts.append(_line(ghost, f"track-ghost {kind}", layout.thickness(arm.configured)))
    if arm.observed is None or arm.observed <= 0:
        parts.append(_line(path, f"track-line track-quiet {kind}", layout.thinnest))
    else:
        parts.append(_line(path, f"track-line {kind}", layout.thickness(arm.observed)))
    return parts


def _path(layout: _Layout, index: int, share: float, *, split: bool) -> str:
    """Out of the trunk, at the edge where the arm belongs, and level to its station."""
    y, trunk_y = layout.y(index), layout.y(0)
    if not split:
        return f"M{layout.start_x:g} {y:g}H{layout.end_x:g}"
    spare = (layout.thickness(1.0) - layout.thickness(share)) / 2
    from_y = trunk_y - spare if index == 0 else trunk_y + spare
    middle = (layout.switch_x + layout.branch_x) / 2
    return (
        f"M{layout.switch_x:g} {from_y:.4g}C{middle:g} {from_y:.4g} {middle:g} {y:g} "
        f"{layout.branch_x:g} {y:g}H{layout.end_x:g}"
    )


def _siding(layout: _Layout, index: int) -> str:
    """A track the switch does not lead to."""
    return f"M{layout.branch_x:g} {layout.y(index):g}H{layout.end_x:g}"


def _line(path: str, classes: str, width: float) -> str:
    return f'<path class="{classes}" d="{path}" stroke-width="{width:.3g}"/>'


def _switch(layout: _Layout) -> str:
    radius = layout.station * 0.7
    return (
        f'<circle class="track-switch" cx="{layout.switch_x:g}" cy="{layout.y(0):g}" '
        f'r="{radius:.3g}"/>'
    )


def _station(arm: Arm, layout: _Layout, index: int) -> str:
    x, y = layout.end_x, layout.y(index)
    return (
        f'<circle class="track-station track-{arm.role}" cx="{x:g}" cy="{y:g}" '
        f'r="{layout.station:g}"/>'
        f'<circle class="track-lamp track-lamp-{arm.lamp}" cx="{x:g}" cy="{y:g}" '
        f'r="{layout.station * 0.5:.3g}"/>'
    )


def _labels(diagram: Diagram, arms: Sequence[Arm], layout: _Layout) -> list[str]:
    parts = []
    wide = layout is _WIDE
    if diagram.rate_text:
        x, y = (0.0, layout.y(0) + 4) if wide else (layout.start_x, layout.y(0) - 22)
        parts.append(_text(x, y, "track-note", diagram.rate_text))
    for index, arm in enumerate(arms):
        x, y = layout.end_x + layout.station + 12, layout.y(index)
        parts.append(_text(x, y - 10, "track-name", f"{arm.label} {_ROLE_WORDS[arm.role]}"))
        for row, note in enumerate(_notes(diagram, arm)):
            parts.append(_text(x, y + 7 + 16 * row, "track-note", note))
    return parts


def _notes(diagram: Diagram, arm: Arm) -> list[str]:
    if arm.role == "idle":
        return [arm.lamp_word]
    if arm.role == "shadow":
        return ["copies only", arm.lamp_word]
    notes = [f"observed {percent_text(arm.observed)}, set {percent_text(arm.configured)}"]
    status = arm.lamp_word
    if arm.role == "canary" and diagram.next_share is not None:
        status = f"{status}, next {percent_text(diagram.next_share)}"
    return [*notes, status]


def _text(x: float, y: float, classes: str, text: str) -> str:
    return f'<text class="{classes}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _empty(layout: _Layout, *, small: bool) -> str:
    y = layout.y(0)
    end = layout.width - 4 if small else layout.end_x
    line = _line(f"M{layout.start_x:g} {y:g}H{end:g}", "track-line track-idle", layout.thinnest)
    return line if small else line + _text(layout.start_x, y - 14, "track-note", "No traffic")
