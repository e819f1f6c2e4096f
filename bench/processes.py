"""Servers that are measured: each in a process of its own, on ports of its own, up only while needed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_connection, socket

import psutil

START_LIMIT_S = 60


@dataclass(frozen=True)
class Ports:
    http: int
    grpc: int
    metrics: int


@dataclass(frozen=True)
class ServerProcess:
    """`counters` says for a model how many requests succeeded and failed so far; None: nobody counts."""

    pid: int
    http_port: int
    grpc_port: int

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def cpu_seconds(self) -> float:
        """User and system time so far of the server's process and of all it has started and not ended."""
        first = psutil.Process(self.pid)
        times = [process.cpu_times() for process in (first, *first.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))

    def counters(self, model: str) -> tuple[int, int] | None:
        return None


@contextmanager
def running(
    command: Callable[[Ports], Sequence[str]],
    ready: Callable[[Ports], bool],
    *,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[ServerProcess]:
    """Waits until it is `ready`; ends it with SIGTERM, and with SIGKILL where that is not heard."""
    ports = free_ports()
    with (log or Path(os.devnull)).open("ab") as output:
        process = subprocess.Popen(
            list(command(ports)),
            stdout=output,
            stderr=output if log else None,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        _wait(process, lambda: ready(ports))
        yield ServerProcess(process.pid, ports.http, ports.grpc)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _wait(process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} did not become ready; run it by hand to see why")
        time.sleep(0.1)


def free_ports() -> Ports:
    sockets = [socket() for _ in range(3)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        http, grpc, metrics = (s.getsockname()[1] for s in sockets)
        return Ports(http, grpc, metrics)
    finally:
        for s in sockets:
            s.close()
