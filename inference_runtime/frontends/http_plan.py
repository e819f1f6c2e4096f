"""What HTTP infer remembers: by the bytes of a request's JSON, its head and where its tensors lie."""

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from inference_runtime.frontends.http1_application import Known

from inference_runtime.protocol.http_codec import HttpInfer
from inference_runtime.spec.messages import Bytes, RequestHead

_PLAN_LIMIT: Final = 8192  # JSON longer than this is read anew each time
_MEMORY_BYTES: Final = 16 << 20
_TARGETS: Final = 4096
_HEAD_LIMIT: Final = 4096  # requests under a longer head are taken apart each time
# Below this a copy of the bytes is cheaper than a view of them.
_COPY_BELOW: Final = 16384
# An id in front, as tritonclient writes it: it is cut off, so that requests differ only in what matters.
_ID: Final = re.compile(rb'\{"id":"([^"\\\x00-\x1f\x7f-\xff]{0,256})",(?=")')


class HttpPlan:
    """A head, and per input the span of its data behind the JSON. `replies`: what was answered to it.

    `sizes`: of the spans. `regions`: which tensors lie in shared memory, None for the usual request.
    `quick_size`: `data_size` where all inputs are behind the JSON, else -1. `whole`: what a client sent last
    that came to this plan.
    """

    __slots__ = (
        "data_size", "head", "kept", "quick_size", "regions", "replies", "sizes", "spans", "whole",
    )  # fmt: skip

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
        self.sizes = tuple(last - first for first, last in self.spans)
        self.whole: WholeRequest | None = None
        self.quick_size = self.data_size if self.regions is None else -1

    def data(self, buffer: bytes, base: int) -> list[Bytes]:
        """Of a request whose inputs are all binary; empty for those in shared memory."""
        view = buffer if self.data_size < _COPY_BELOW else memoryview(buffer)
        return [view[base + first : base + last] for first, last in self.spans]


class WholeRequest:
    """A request that came in one piece: `start` is all of it up to its tensors, head and JSON.

    Clients send the same again and again, so a connection that knows its last one need not take the next
    apart: it compares, and `run(connection, whole, data)` does the rest. `tensors` cuts them out.
    """

    __slots__ = ("known", "plan", "run", "size", "start", "tensors")

    def __init__(
        self, known: "Known", plan: HttpPlan, start: bytes, run: Callable[..., None]
    ) -> None:
        self.known = known
        self.plan = plan
        self.start = start
        self.size = len(start) + plan.data_size
        self.run = run
        cuts = [slice(len(start) + first, len(start) + last) for first, last in plan.spans]
        self.tensors: Callable[[bytes], Sequence[bytes]] = (
            itemgetter(*cuts) if len(cuts) > 1 else lambda data: [data[cut] for cut in cuts]
        )


def whole_request(
    known: "Known", plan: HttpPlan, start: bytes, run: Callable[..., None]
) -> WholeRequest | None:
    """None for one whose tensors are worth a view of what came instead of a copy, or whose head is long. What a
    plan keeps is there for all connections that send the same."""
    if plan.data_size >= _COPY_BELOW or known.size > _HEAD_LIMIT:
        return None
    whole = plan.whole
    if whole is None or whole.known is not known:
        whole = plan.whole = WholeRequest(known, plan, start, run)
    return whole


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

    @staticmethod
    def may_keep(key: bytes, infer: HttpInfer) -> bool:
        """Data in the JSON itself does not come again."""
        return len(key) <= _PLAN_LIMIT and not any(isinstance(s, bytes) for s in infer.sources)

    def keep(self, target: HttpTarget, key: bytes, infer: HttpInfer) -> HttpPlan:
        """`infer` is what the bytes of `key` come to, and `may_keep` has said yes."""
        plan = HttpPlan(infer)
        self._bytes += 3 * len(key) + 2 * _HEAD_LIMIT
        if self._bytes > _MEMORY_BYTES:
            self._bytes = 0
            for other in self._targets.values():
                other.plans.clear()
        plan.kept = True
        target.plans[key] = plan
        return plan


def split_id(document: bytes) -> tuple[str, bytes]:
    """(id, the document without it); the document itself where no plain id leads it."""
    match = _ID.match(document)
    if match is None:
        return "", document
    return match[1].decode("ascii"), b"{" + document[match.end() :]
