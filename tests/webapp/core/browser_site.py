"""The web process as a real server beside a test, for Chromium to look at."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.db import connections

from tests.control_plane_environment import control_plane_environment

ROOT = Path(__file__).resolve().parents[3]
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Site:
    """uvicorn on the test's database and Redis."""

    def __init__(self, *, home: Path, redis_url: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._home = home
        self._environment = control_plane_environment(home=home, redis_url=redis_url)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, limit_s: float = 40) -> None:
        command = [sys.executable, "-m", "uvicorn", "webapp.asgi:application"]
        with (self._home / "web.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port), "--lifespan", "off", "--log-level", "warning"],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + limit_s
        while not self._answers():
            assert time.monotonic() < deadline, (self._home / "web.log").read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def in_thread(function: Callable[..., Any], **parameters: Any) -> Any:
    """Playwright's loop runs in the test's thread, where Django refuses to touch the database."""

    def call() -> Any:
        try:
            return function(**parameters)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()
