"""Real worker and beat processes beside a test, on the test's database and Redis."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.control_plane_environment import control_plane_environment

ROOT = Path(__file__).resolve().parents[2]


class Processes:
    """Starts `celery …`; ends everything it started, children included."""

    def __init__(self, *, home: Path, redis_url: str) -> None:
        self._home = home
        self._started: list[subprocess.Popen[bytes]] = []
        self._environment = control_plane_environment(home=home, redis_url=redis_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._started:
            self.kill(process)

    def worker(self, *, queues: str = "default,benchmarks,control") -> subprocess.Popen[bytes]:
        return self._start("worker", "-Q", queues, "-c", "2", "-l", "INFO", "--without-mingle")

    def beat(self) -> subprocess.Popen[bytes]:
        return self._start("beat", "-l", "INFO")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """kill -9, to the whole group: a machine that loses power asks nobody."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return (self._home / f"{self._started.index(process)}.log").read_text()

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self._home / f"{len(self._started)}.log").open("wb")
        command = [sys.executable, "-m", "celery", "-A", "tests.workers.sample_app", *words]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self._environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        self._started.append(process)
        return process


def eventually(condition: Callable[[], bool], *, limit_s: float = 30, what: str = "") -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what or condition}"
        time.sleep(0.05)
