"""A runtime process on free ports of this machine, for tests that need the real thing."""

import socket
import subprocess
import sys
import time
from pathlib import Path

from webapp.runtime_client.client import RuntimeClient
from webapp.runtime_client.errors import RuntimeProblem

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 30


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class RuntimeProcess:
    def __init__(self, repository: Path, state: Path, ports: list[int] | None = None) -> None:
        self.repository = repository
        self.state = state
        self.http_port, self.grpc_port, self.metrics_port = ports or free_ports(3)
        self.log = state.parent / "runtime.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def http_address(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def metrics_address(self) -> str:
        return f"127.0.0.1:{self.metrics_port}"

    def client(self, timeout: float = 5.0) -> RuntimeClient:
        return RuntimeClient(
            self.http_address, self.grpc_address, timeout, metrics_address=self.metrics_address
        )

    def start(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "inference_runtime",
            f"--model-repository={self.repository}", "--model-control-mode=explicit",
            f"--http-port={self.http_port}", f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}", f"--switchyard-state-dir={self.state}",
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self._wait_until_ready()

    def kill(self) -> None:
        """As a power cut would: no drain, no goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def _wait_until_ready(self) -> None:
        client = self.client(1.0)
        deadline = time.monotonic() + START_SECONDS
        try:
            while time.monotonic() < deadline:
                assert self._process is not None
                if self._process.poll() is not None:
                    break
                try:
                    if client.ready():
                        return
                except RuntimeProblem:
                    pass
                time.sleep(0.05)
        finally:
            client.close()
        raise AssertionError(f"the runtime did not start:\n{self.log.read_text()[-4000:]}")
