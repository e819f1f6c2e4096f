"""Steady requests that name no version, and what came of each."""

import threading
import time
from collections import Counter

import numpy as np

from webapp.runtime_client.errors import RuntimeProblem
from webapp.runtime_client.types import Tensor


class RequestStream:
    """About 200 requests per second from two threads, until the `with` block ends."""

    def __init__(self, client, model="echo"):
        self._client = client
        self._model = model
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(2)]
        self._lock = threading.Lock()
        self.versions: Counter[int] = Counter()
        self.failures: list[str] = []

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def restart_counting(self):
        with self._lock:
            self.versions.clear()

    def wait_for(self, count, limit_seconds=20):
        """Until so many more answers have come."""
        deadline = time.monotonic() + limit_seconds
        goal = sum(self.versions.values()) + count
        while sum(self.versions.values()) < goal:
            assert time.monotonic() < deadline, (self.versions, self.failures[:3])
            time.sleep(0.01)

    def _run(self):
        request = [Tensor("INPUT0", "FP32", np.zeros((1, 4), np.float32))]
        while not self._stop.wait(0.01):
            try:
                answer = self._client.infer(self._model, request, timeout=10)
            except RuntimeProblem as problem:
                self.failures.append(problem.text)
                continue
            with self._lock:
                self.versions[answer.version] += 1
            if answer.outputs[0].array.tolist() != [[float(answer.version)] * 4]:
                self.failures.append(f"version {answer.version} answered {answer.outputs[0].array}")
