"""Every variable that is read has its row in docs/settings.md, and every row is read."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READERS = [ROOT / "webapp", ROOT / "workers", ROOT / "stack", ROOT / "inference_runtime"]
NAME = re.compile(r"\"(SWITCHYARD_[A-Z_]+|DATABASE_URL|REDIS_URL|STORAGE_URL)\"")


def test_the_table_and_the_code_name_the_same_variables() -> None:
    documented = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs/settings.md").read_text(), re.M))
    read = {
        name
        for folder in READERS
        for path in folder.rglob("*.py")
        for name in NAME.findall(path.read_text())
    }
    assert read == documented
