"""The glossary is a promise about words; these tests keep it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("inference_runtime", "webapp", "workers", "stack")
# Words of the glossary's last column that can mean nothing else in an identifier.
FORBIDDEN = {"revision_number", "replica", "replicas", "collator", "quiesce", "blob", "gpu_card"}


def _identifiers() -> Iterator[tuple[Path, str]]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "migrations" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                        yield path, node.name
                    case ast.Name():
                        yield path, node.id
                    case ast.arg():
                        yield path, node.arg
                    case ast.Attribute():
                        yield path, node.attr


def _rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    return [
        [c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("| ")
    ]


def test_no_forbidden_word_is_an_identifier() -> None:
    found = sorted(
        {
            f"{path.relative_to(ROOT)}: {name}"
            for path, name in _identifiers()
            if set(re.split(r"_|(?<=[a-z])(?=[A-Z])", name.lower())) & FORBIDDEN
        }
    )
    assert not found, found


def test_every_term_is_explained_once() -> None:
    terms = [term.strip() for row in _rows()[1:] for term in row[0].split(",")]
    assert len(terms) == len(set(terms)) > 50
    assert all(len(row) == 3 and row[1] for row in _rows())
