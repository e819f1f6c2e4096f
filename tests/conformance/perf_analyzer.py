"""NVIDIA's own load generator, unmodified: `get_perf_analyzer.sh` fetches it."""

import csv
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_SECONDS = 90
# One short look, whatever its spread: it is not speed that is asked for here.
_SHORT = (
    "--measurement-mode=count_windows",
    "--measurement-request-count=100",
    "--stability-percentage=999",
    "--max-trials=3",
)


@dataclass(frozen=True)
class Profile:
    rows: list[dict[str, str]]  # of its CSV file, one for each load, the quickest first
    output: str


class PerfAnalyzer:
    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def profile(self, model: str, protocol: str, address: str, *options: str) -> Profile:
        """Fails with its output when it does not end well, or has measured nothing."""
        table = self._folder / "profile.csv"
        command = [
            str(self._program), "-m", model, "-i", protocol, "-u", address, "-f", str(table),
            *_SHORT, *options,
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, cwd=self._folder
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows, output
        assert all(float(row["Inferences/Second"]) > 0 for row in rows), output
        return Profile(rows, output)


def find_perf_analyzer() -> Path:
    """Skips the test where it is not: in the environment's PERF_ANALYZER, in SWITCHYARD_HOME, on the path."""
    home = os.environ.get("SWITCHYARD_HOME")
    named = (
        os.environ.get("PERF_ANALYZER"),
        f"{home}/perf_analyzer/perf_analyzer" if home else None,
        shutil.which("perf_analyzer"),
    )
    for name in named:
        if name and Path(name).is_file():
            return Path(name).resolve()
    pytest.skip("perf_analyzer is not here; tests/conformance/get_perf_analyzer.sh fetches it")
