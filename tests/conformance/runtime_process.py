"""The runtime as a process of its own, as an operator starts it, and stock clients to talk to it."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import orjson
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

ROOT = Path(__file__).parents[2]
_STARTED = re.compile(r"Started (\w+)(?: Service)? at [\d.]+:(\d+)")
WAIT_SECONDS = 30


@dataclass
class RuntimeProcess:
    process: subprocess.Popen[bytes]
    log_path: Path
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.ports['HTTPService']}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports['GRPCInferenceService']}"

    @property
    def metrics(self) -> str:
        return f"127.0.0.1:{self.ports['Metrics']}"

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @contextmanager
    def http_client(self, **more) -> Iterator[httpclient.InferenceServerClient]:
        client = httpclient.InferenceServerClient(self.http, **more)
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def grpc_client(self) -> Iterator[grpcclient.InferenceServerClient]:
        client = grpcclient.InferenceServerClient(self.grpc)
        try:
            yield client
        finally:
            client.close()

    def call(self, method: str, path: str, body=None) -> tuple[int, Any]:
        """Status and JSON of a plain HTTP call."""
        data = orjson.dumps(body) if body is not None else None
        request = urllib.request.Request(f"http://{self.http}{path}", data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                status, content = answer.status, answer.read()
        except HTTPError as error:
            with error:
                status, content = error.code, error.read()
        return status, orjson.loads(content) if content else None

    def ready(self) -> bool:
        try:
            return self.call("GET", "/v2/health/ready")[0] == 200
        except (URLError, OSError):
            return False

    def wait_ready(self) -> None:
        self.wait_for(self._alive_and_ready, "readiness")

    def _alive_and_ready(self) -> bool:
        assert self.process.poll() is None, self.log
        return self.ready()

    def wait_for(self, condition, what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come true\n{self.log}"
            time.sleep(0.02)

    def terminate(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_SECONDS)

    def wait_exit(self) -> int:
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def runtime(
    repository: Path | str, log: Path, *options: str, mode="explicit", wait=True
) -> Iterator[RuntimeProcess]:
    command = [
        sys.executable,
        "-m",
        "inference_runtime",
        f"--model-repository={repository}",
        f"--model-control-mode={mode}",
        *("--http-port=0", "--grpc-port=0", "--metrics-port=0"),
        *("--http-address=127.0.0.1", "--grpc-address=127.0.0.1"),
        *options,
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
    server = RuntimeProcess(process, log)
    try:
        if wait:
            server.wait_for(lambda: find_ports(server), "the ports in the log")
            server.wait_ready()
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def find_ports(server: RuntimeProcess) -> bool:
    assert server.process.poll() is None, server.log
    server.ports = {name: int(port) for name, port in _STARTED.findall(server.log)}
    return len(server.ports) == 3
