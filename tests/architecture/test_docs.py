"""What people read must point at what is there."""

import re
from pathlib import Path

import pytest

from tests.conformance import checklist

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_links_and_make_targets_exist(page: Path) -> None:
    text = page.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert re.search(rf"^{target}:", makefile, re.M), f"{page.name}: make {target}"
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_deliberate_difference_has_its_test() -> None:
    decisions = (ROOT / "docs" / "compatibility.md").read_text().partition("## Checks")[0]
    rows = decisions.splitlines()
    named = {name for row in rows for name in re.findall(r"`(test_[a-z0-9_]+)` \|$", row)}
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) >= 6
    assert {name for name in named if f"def {name}(" not in tests} == set()


def test_the_list_of_checks_is_that_of_the_tests() -> None:
    text = checklist.PAGE.read_text()
    assert text == checklist.written(text, checklist.page(checklist.collect())), (
        "run: python -m tests.conformance.checklist"
    )
