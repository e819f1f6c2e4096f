"""Services and selectors are the doors of an app: keyword-only and fully annotated."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _doors() -> Iterator[tuple[str, ast.FunctionDef]]:
    for name in ("services", "selectors"):
        for path in (ROOT / "webapp").glob(f"*/{name}*"):
            files = [path] if path.is_file() else sorted(path.rglob("*.py"))
            for file in files:
                for node in ast.parse(file.read_text()).body:
                    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                        yield f"{file.relative_to(ROOT)}::{node.name}", node


@pytest.mark.parametrize(("where", "function"), [pytest.param(w, f, id=w) for w, f in _doors()])
def test_is_keyword_only_and_annotated(where: str, function: ast.FunctionDef) -> None:
    arguments = function.args
    assert not arguments.args, f"{where} takes positional arguments"
    assert not arguments.posonlyargs, f"{where} takes positional arguments"
    assert function.returns is not None, f"{where} has no return annotation"
    assert all(a.annotation for a in arguments.kwonlyargs), f"{where} has a bare parameter"
