"""The runtime as users start it, with one repository of the subjects."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import tritonclient.grpc as triton
import urllib3
from tritonclient.utils import np_to_triton_dtype

from bench.subjects import Subject

_START_LIMIT_S = 60


@dataclass(frozen=True)
class Served:
    pid: int
    http_port: int
    grpc_port: int

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def cpu_seconds(self) -> float:
        """User and system time of the server's process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def counters(self, model: str) -> tuple[int, int]:
        """Successful and failed requests so far. What the loader itself cut off is no failure."""
        url = f"http://127.0.0.1:{self.http_port}/v2/switchyard/statistics"
        body = urllib3.request("GET", url, timeout=10).json()
        arms = [arm for entry in body["models"] if entry["model"] == model for arm in entry["arms"]]
        failed = ("failures", "client_faults", "rejections", "timeouts")
        return (
            sum(arm["successes"] for arm in arms),
            sum(arm[kind] for arm in arms for kind in failed),
        )


def write_repository(folder: Path, subjects: list[Subject]) -> None:
    for subject in subjects:
        version = folder / subject.name / "1"
        version.mkdir(parents=True)
        shutil.copy(subject.file, version / "model.onnx")
        (folder / subject.name / "config.pbtxt").write_text(subject.config)


@contextmanager
def serve(repository: Path, *options: str) -> Iterator[Served]:
    ports = _free_ports(3)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "inference_runtime", f"--model-repository={repository}",
            f"--http-port={ports[0]}", f"--grpc-port={ports[1]}", f"--metrics-port={ports[2]}",
            "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", *options,
        ],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    served = Served(process.pid, ports[0], ports[1])
    try:
        _wait_ready(served, process)
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def verify(served: Served, subject: Subject) -> None:
    """One real answer, judged, before any load: h2load does not look at answers."""
    client = triton.InferenceServerClient(served.grpc_address)
    inputs = []
    for name, array in subject.item.items():
        entry = triton.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        entry.set_data_from_numpy(array)
        inputs.append(entry)
    result = client.infer(subject.name, inputs)
    outputs: dict[str, Any] = {
        o.name: result.as_numpy(o.name) for o in result.get_response().outputs
    }
    subject.check(outputs)
    client.close()


def _wait_ready(served: Served, process: subprocess.Popen[bytes]) -> None:
    client = triton.InferenceServerClient(served.grpc_address)
    deadline = time.monotonic() + _START_LIMIT_S
    while True:
        try:
            if client.is_server_ready(client_timeout=2):
                client.close()
                return
        except triton.InferenceServerException:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the runtime did not become ready; run it by hand to see why")
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()
