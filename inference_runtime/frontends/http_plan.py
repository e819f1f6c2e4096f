"""What HTTP infer remembers: by the bytes of a request's JSON, its head and where its tensors lie."""

import re
from typing import Any, Final

from inference_runtime.protocol.http_codec import HttpInfer
from inference_runtime.spec.messages import Bytes, RequestHead

_PLAN_LIMIT: Final = 8192  # JSON longer than this is read anew each time
_MEMORY_BYTES: Final = 16 << 20
_TARGETS: Final = 4096
# Below this a copy of the bytes is cheaper than a view of them.
_COPY_BELOW: Final = 16384
# An id in front, as tritonclient writes it: it is cut off, so that requests differ only in what matters.
_ID: Final = re.compile(rb'\{"id":"([^"\\\x00-\x1f\x7f-\xff]{0,256})",(?=")')


class HttpPlan:
    """A head, and per input the span of its data behind the JSON. `replies`: what was answered to it.

    `cut`: where the first tensor ends. `regions`: which tensors lie in shared memory, None for the usual
    request. `quick_size`: `data_size` where all inputs are behind the JSON, else -1.
    """

    __slots__ = ("cut", "data_size", "head", "kept", "quick_size", "regions", "replies", "spans")

    def __init__(self, infer: HttpInfer) -> None:
        self.head: RequestHead = infer.head
        self.regions = infer.regions
        self.kept = False
        self.replies: dict[Any, Any] = {}
        self.spans: list[tuple[int, int]] = []
        self.data_size = 0
        for source in infer.sources:
            size = source if isinstance(source, int) else 0
            self.spans.append((self.data_size, self.data_size + size))
            self.data_size += size
        self.cut = self.spans[0][1] if self.spans else 0
        self.quick_size = self.data_size if self.regions is None else -1

    def data(self, buffer: bytes, base: int) -> list[Bytes]:
        """Of a request whose inputs are all binary; empty for those in shared memory."""
        if self.data_size < _COPY_BELOW:
            count = len(self.spans)
            if count == 1:
                return [buffer[base : base + self.data_size]]
            if count == 2:
                middle = base + self.cut
                return [buffer[base:middle], buffer[middle : base + self.data_size]]
            return [buffer[base + first : base + last] for first, last in self.spans]
        view = memoryview(buffer)
        return [view[base + first : base + last] for first, last in self.spans]


class HttpTarget:
    """One model, or version of it, that requests were sent to, and the plans of its requests."""

    __slots__ = ("model_name", "plans", "version")

    def __init__(self, model_name: str, version: str) -> None:
        self.model_name = model_name
        self.version = version
        self.plans: dict[bytes, HttpPlan] = {}

    @property
    def key(self) -> tuple[str, str]:
        return self.model_name, self.version


class PlanMemory:
    """All targets, and one bound over all their plans."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, str], HttpTarget] = {}
        self._bytes = 0

    def target(self, model_name: str, version: str) -> HttpTarget:
        target = self._targets.get((model_name, version))
        if target is None:
            target = HttpTarget(model_name, version)
            if len(self._targets) < _TARGETS:
                self._targets[target.key] = target
        return target

    def keep(self, target: HttpTarget, key: bytes, infer: HttpInfer) -> HttpPlan:
        plan = HttpPlan(infer)
        if len(key) > _PLAN_LIMIT or any(isinstance(source, bytes) for source in infer.sources):
            return plan
        self._bytes += 2 * len(key) + 512
        if self._bytes > _MEMORY_BYTES:
            self._bytes = 0
            for other in self._targets.values():
                other.plans.clear()
        plan.kept = True
        target.plans[key] = plan
        return plan


def split_id(document: bytes) -> tuple[str, bytes]:
    """(id, the rest of the document without it); the document itself where no plain id leads it."""
    match = _ID.match(document)
    if match is None:
        return "", document
    return match[1].decode("ascii"), document[match.end() :]
