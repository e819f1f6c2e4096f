"""Steady traffic from stock clients in threads, with everything that came back."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from tests.conformance.runtime_process import RuntimeProcess


@dataclass
class Traffic:
    """`answers` are (version, value) in the order of their arrival per client."""

    answers: list[tuple[str, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def versions(self) -> set[str]:
        return {version for version, _ in self.answers}

    def wait_more(self, count: int, timeout_s: float = 20) -> None:
        """Until so many more answers have come."""
        wanted, deadline = len(self.answers) + count, time.monotonic() + timeout_s
        while len(self.answers) < wanted:
            assert not self.failures, self.failures[:3]
            assert time.monotonic() < deadline, f"no {count} more answers within {timeout_s} s"
            time.sleep(0.01)


@contextmanager
def traffic(server: RuntimeProcess, model: str, *, rate_per_client=50.0):
    """Two HTTP and two gRPC clients, together about 200 requests a second by default."""
    run = Traffic()
    kinds = [(httpclient, server.http), (grpcclient, server.grpc)] * 2
    threads = [
        threading.Thread(target=_drive, args=(run, module, address, model, 1 / rate_per_client))
        for module, address in kinds
    ]
    for thread in threads:
        thread.start()
    try:
        run.wait_more(20)
        yield run
    finally:
        run.stop.set()
        for thread in threads:
            thread.join(30)


def _drive(run: Traffic, module, address: str, model: str, pause_s: float) -> None:
    client = module.InferenceServerClient(address)
    zero = np.zeros((1, 4), np.float32)
    due = time.monotonic()
    while not run.stop.is_set():
        tensor = module.InferInput("INPUT0", [1, 4], "FP32")
        tensor.set_data_from_numpy(zero)
        try:
            result = client.infer(model, [tensor])
        except Exception as error:  # noqa: BLE001  any failure is a finding
            run.failures.append(repr(error))
        else:
            answer = result.get_response()
            version = answer["model_version"] if isinstance(answer, dict) else answer.model_version
            run.answers.append((version, float(result.as_numpy("OUTPUT0")[0, 0])))
        due += pause_s
        run.stop.wait(max(due - time.monotonic(), 0))
    client.close()
