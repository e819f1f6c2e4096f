"""Steady traffic with a stock client: every answer's time, version and content written down."""

import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tritonclient.grpc as triton


@dataclass
class Answer:
    sent: float
    got: float
    version: int  # 0: failed
    value: float
    error: str = ""


@dataclass
class Traffic:
    """Sends `rate` requests a second for as long as the `with` block lasts, open loop.

    `make` draws the one INT64 element that is sent; `value` of an answer is its first element.
    """

    grpc: str
    model: str
    rate: float = 200
    make: Callable[[random.Random], int] = lambda random: random.randrange(19)
    answers: list[Answer] = field(default_factory=list)

    def __enter__(self) -> "Traffic":
        self._client = triton.InferenceServerClient(self.grpc)
        self._stop = threading.Event()
        self._random = random.Random(0)
        self._arrived: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._sent = 0
        self._thread = threading.Thread(target=self._send)
        self._thread.start()
        return self

    def __exit__(self, *_unused: object) -> None:
        self._stop.set()
        self._thread.join()
        deadline = time.monotonic() + 20
        while len(self.answers) < self._sent and time.monotonic() < deadline:
            time.sleep(0.02)
        self._client.close()
        assert len(self.answers) == self._sent, "a request was never answered"

    @property
    def failed(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.error]

    def versions(self, *, since: float = 0, until: float = float("inf")) -> Counter[int]:
        """How many answers each version gave to requests sent in the window."""
        return Counter(
            a.version for a in list(self.answers) if since <= a.sent < until and a.version
        )

    def _send(self) -> None:
        began = time.monotonic()
        while not self._stop.is_set():
            due = began + self._sent / self.rate
            time.sleep(max(due - time.monotonic(), 0))
            entry = triton.InferInput("INDEX", [1, 1], "INT64")
            entry.set_data_from_numpy(np.array([[self.make(self._random)]], np.int64))
            sent = time.monotonic()
            self._sent += 1
            self._client.async_infer(
                self.model,
                [entry],
                lambda result, error, sent=sent: self._took(sent, result, error),
            )

    def _took(self, sent: float, result: Any, error: Any) -> None:
        got = time.monotonic()
        if error is not None:
            self.answers.append(Answer(sent, got, 0, 0.0, str(error)))
            return
        version = int(result.get_response().model_version)
        value = float(result.as_numpy("OUTPUT0").ravel()[0])
        self.answers.append(Answer(sent, got, version, value))
