"""`python manage.py` works with the Python of the machine, which has none of our packages."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def manage(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "manage.py", checkout)
    bare = [sys.executable, "-I", "-S", "manage.py"]  # -S: no installed packages
    return subprocess.run(
        [*bare, *arguments], cwd=checkout, capture_output=True, text=True, check=False
    )


def test_it_goes_on_with_the_python_of_the_environment(tmp_path: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "taken over: $*"\n')
    python.chmod(0o755)
    done = manage(tmp_path, "token_issue", "--user", "admin")
    assert done.stdout == "taken over: manage.py token_issue --user admin\n"
    assert done.returncode == 0


def test_without_an_environment_it_says_how_to_get_one(tmp_path: Path) -> None:
    done = manage(tmp_path, "token_issue")
    assert done.returncode == 1
    assert "make run" in done.stderr
    assert "Traceback" not in done.stderr
