"""The examples are whole before any model is fetched."""

import ast
from pathlib import Path

import pytest

from inference_runtime.spec.config_text import config_from_text
from stack.corpus.examples import NAMES
from stack.settings import ROOT

EXAMPLES = ROOT / "examples"
MODELS = [pytest.param(p, id=p.parent.name) for p in sorted(EXAMPLES.glob("*/*/config.pbtxt"))]


def test_every_example_can_be_laid_out() -> None:
    assert sorted(path.name for path in EXAMPLES.iterdir()) == sorted(NAMES)
    for name in NAMES:
        assert f"| `{name}` |" in (ROOT / "docs" / "examples.md").read_text()


@pytest.mark.parametrize("file", MODELS)
def test_every_config_reads_and_has_its_model(file: Path) -> None:
    config = config_from_text(file.read_text())
    source = file.parent / "1" / "model.py"
    assert (config.backend == "python") == source.exists()
    if source.exists():
        classes = {
            n.name for n in ast.parse(source.read_text()).body if isinstance(n, ast.ClassDef)
        }
        assert "TritonPythonModel" in classes
