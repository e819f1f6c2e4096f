"""Triton's hooks for tests of schedulers: wait, once, until so much has come. Pure."""

from dataclasses import dataclass

from inference_runtime.instances.batch import Batch
from inference_runtime.scheduling.dynamic_batcher import Batcher, WaitUntil
from inference_runtime.scheduling.request_queue import RequestQueue


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing is executed before so many requests wait, and so many sequences for a slot."""

    requests: int = 0
    backlog: int = 0


NO_HOLD = Hold()


class HeldBatcher:
    """A batcher that forms its first batch of a queue that is long enough."""

    def __init__(self, batcher: Batcher, hold: Hold) -> None:
        self._batcher = batcher
        self._wanted = hold.requests

    @property
    def eager(self) -> bool:
        return self._batcher.eager

    def next_batch(self, queue: RequestQueue, now_ns: int) -> Batch | WaitUntil | None:
        if len(queue) < self._wanted:
            return None
        self._wanted = 0
        return self._batcher.next_batch(queue, now_ns)

    def hurry(self) -> None:
        self._wanted = 0
        self._batcher.hurry()
