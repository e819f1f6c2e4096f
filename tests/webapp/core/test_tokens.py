"""Colours: every text on its surface reaches 4.5:1, every line 3:1, in both themes."""

import re
from pathlib import Path

import pytest

CSS = Path(__file__).resolve().parents[3] / "static" / "css"
TOKENS = (CSS / "tokens.css").read_text()

TEXT = [
    *((ink, surface) for ink in ("ink", "ink-soft", "link") for surface in
      ("page", "panel", "raised", "sunken")),
    *((tone, surface) for tone in ("stable", "canary", "good", "bad", "idle") for surface in
      (f"{tone}-tint", "panel", "page", "raised")),
    ("accent-ink", "accent"),
    ("accent-ink", "accent-hover"),
    ("ink", "stable-tint"),
    ("bad-solid-ink", "bad-solid"),
]  # fmt: skip
LINES = [
    (line, "panel")
    for line in (
        "line-strong", "focus", "stable-line", "canary-line", "good-line", "bad-line",
        "idle-line", "queue-line", "compute-line",
    )
]  # fmt: skip


def block(opening: str) -> dict[str, str]:
    body = TOKENS[TOKENS.index(opening) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", body[: body.index("}")]))


LIGHT = block(":root {")
DARK = LIGHT | block(':root[data-theme="dark"] {')


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(theme: dict[str, str]):
    weak = {
        pair: round(contrast(theme[pair[0]], theme[pair[1]]), 2)
        for pair in TEXT
        if contrast(theme[pair[0]], theme[pair[1]]) < 4.5
    }
    assert weak == {}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_can_be_seen(theme: dict[str, str]):
    weak = [pair for pair in LINES if contrast(theme[pair[0]], theme[pair[1]]) < 3]
    assert weak == []


def test_chosen_dark_is_the_systems_dark():
    assert block(':root:not([data-theme="light"]) {') == block(':root[data-theme="dark"] {')


@pytest.mark.parametrize("name", ["base.css", "components.css"])
def test_no_colour_outside_the_tokens(name: str):
    text = (CSS / name).read_text()
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", text) == []


@pytest.mark.parametrize("name", ["base.css", "components.css"])
def test_every_token_that_is_used_exists(name: str):
    used = set(re.findall(r"var\(--([\w-]+)", (CSS / name).read_text()))
    assert used <= set(re.findall(r"--([\w-]+):", TOKENS))
