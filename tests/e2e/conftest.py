"""The whole stack as a person starts it: real processes on loopback, a home of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
import urllib3

from stack.demo.api import Api

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse battery"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def eventually(question: Callable[[], T | None], *, within: float, what: str) -> T:
    """The first truthy answer; fails with `what` when none comes in time."""
    deadline = time.monotonic() + within
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, (
            f"not within {within} s: {what} (last answer: {answer!r})"
        )
        time.sleep(0.1)


@dataclass
class Stack:
    home: Path
    ports: list[int]
    process: subprocess.Popen[str] | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.home / "stack.log"

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.ports[1]}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports[2]}"

    @property
    def metrics(self) -> str:
        return f"127.0.0.1:{self.ports[3]}"

    @property
    def environment(self) -> dict[str, str]:
        names = ("WEB", "HTTP", "GRPC", "METRICS")
        ports = {f"SWITCHYARD_{n}_PORT": str(p) for n, p in zip(names, self.ports, strict=True)}
        kept = {
            k: v for k, v in os.environ.items() if k not in {"DJANGO_SETTINGS_MODULE", "REDIS_URL"}
        }
        own = {"SWITCHYARD_HOME": str(self.home), "SWITCHYARD_ADMIN_PASSWORD": PASSWORD}
        return {**kept, **ports, **own}

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stack", "run"],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        seen = self.log.read_text().count("Switchyard is up")

        def up() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            return self.log.read_text().count("Switchyard is up") > seen

        eventually(up, within=120, what="the stack is up")

    def stop(self) -> float:
        """Stops as Ctrl-C does; the seconds it took."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=20)
        return time.monotonic() - began

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={**self.environment, "REDIS_URL": f"unix://{self.home}/redis.sock"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def api(self, user: str = "admin") -> Api:
        token = (
            self.manage("token_issue", "--user", user, "--name", "test").strip().splitlines()[-1]
        )
        return Api(self.web, token)

    def pid_of(self, part: str) -> int:
        """Process id of a part, found by its command line among the supervisor's children."""
        assert self.process is not None
        patterns = {
            "web": r"uvicorn webapp\.asgi", "worker": r"--hostname worker@", "redis": r"redis-server",
            "bench-worker": r"--hostname bench-worker@", "control-worker": r"--hostname control-worker@", "beat": r"celery.* beat",
            "sampler": r"manage\.py sampler", "runtime": r"-m inference_runtime",
        }  # fmt: skip
        listing = subprocess.run(
            ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for line in listing.splitlines():
            pid, arguments = line.strip().split(" ", 1)
            if re.search(patterns[part], arguments):
                return int(pid)
        raise AssertionError(f"no {part} among:\n{listing}")

    def kill(self, part: str) -> None:
        os.kill(self.pid_of(part), signal.SIGKILL)

    def healthy(self) -> bool:
        try:
            return (
                urllib3.request("GET", f"{self.web}/healthz", timeout=2, retries=False).status
                == 200
            )
        except urllib3.exceptions.HTTPError:
            return False


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(home=tmp_path_factory.mktemp("home"), ports=free_ports(4))
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()
