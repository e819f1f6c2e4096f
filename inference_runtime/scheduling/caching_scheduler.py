"""A scheduler whose answers are kept: an equal request is answered at once and never reaches the model.

Stands before any scheduler of a version whose config enables the response cache. Equal requests that
come before the first of them is answered are all executed, as Triton does.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from inference_runtime.errors import RuntimeFault
from inference_runtime.scheduling.faults import cancelled, stopping
from inference_runtime.scheduling.inflight import answer_from_cache, refuse
from inference_runtime.scheduling.release_order import ReleaseOrder
from inference_runtime.scheduling.request_digest import RequestDigests
from inference_runtime.scheduling.response_cache import Key, ResponseCache, size_of
from inference_runtime.spec.messages import Answer, Done, InferRequest, InferResponse
from inference_runtime.telemetry.stats import Gauges, VersionStats

logger = logging.getLogger(__name__)

# Up to 0.1 ms of hashing is done on the event loop; more than that is worth a thread (which holds no lock).
INLINE_BYTES = 64 << 10


class Executing(Protocol):
    """The scheduler behind the cache."""

    def gauges(self) -> Gauges: ...
    def submit(self, request: InferRequest) -> None: ...
    def cancel(self, request: InferRequest) -> None: ...
    async def drain(self) -> None: ...


class CachingScheduler:
    def __init__(
        self,
        inner: Executing,
        cache: ResponseCache,
        stats: VersionStats,
        *,
        preserve_ordering: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._stats = stats
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._load = cache.new_load()
        self._digests = RequestDigests()
        self._order: ReleaseOrder[Callable[[], None]] | None = (
            ReleaseOrder() if preserve_ordering else None
        )
        self._number = 0  # of the latest request, where order is preserved
        self._hashing: set[InferRequest] = set()
        self._hashed = asyncio.Event()
        self._draining = False

    @property
    def pending(self) -> int:
        return self.gauges().pending

    @property
    def inflight(self) -> int:
        return self.gauges().inflight

    def gauges(self) -> Gauges:
        inner = self._inner.gauges()
        hashing = len(self._hashing)
        if not hashing:
            return inner
        return Gauges(
            pending=inner.pending + hashing,
            inflight=inner.inflight + hashing,
            instances=inner.instances,
            busy=inner.busy,
        )

    def submit(self, request: InferRequest) -> None:
        if self._draining:
            refuse(request, stopping(request), self._stats)
            return
        if self._order is not None:
            self._number += 1
            request.done = _InOrder(self._order, self._number, request.done)
        began_ns = self._clock()
        if sum(map(len, request.data)) <= INLINE_BYTES:
            self._look_up(request, self._digests.of(request.plan, request.data), began_ns)
            return
        try:
            future = self._loop.run_in_executor(None, self._digests.of, request.plan, request.data)
        except RuntimeError:  # the system gives no more threads now
            self._look_up(request, self._digests.of(request.plan, request.data), began_ns)
            return
        self._hashing.add(request)
        future.add_done_callback(partial(self._digested, request, began_ns))

    def cancel(self, request: InferRequest) -> None:
        if request in self._hashing:
            self._end_hashing(request)
            refuse(request, cancelled(), self._stats)
            return
        self._inner.cancel(request)

    async def drain(self) -> None:
        self._draining = True
        while self._hashing:
            self._hashed.clear()
            await self._hashed.wait()
        await self._inner.drain()
        self._forget_some(self._load)

    def forget(self) -> None:
        """What was answered before is no answer any more, nor is what is being executed now."""
        before, self._load = self._load, self._cache.new_load()
        self._forget_some(before)

    def _forget_some(self, load: int) -> None:
        if self._cache.forget(load):
            self._loop.call_soon(self._forget_some, load)  # sockets get their turn

    def _digested(
        self, request: InferRequest, began_ns: int, future: "asyncio.Future[bytes]"
    ) -> None:
        if request not in self._hashing:
            return  # cancelled meanwhile
        self._end_hashing(request)
        if future.exception() is None:
            self._look_up(request, future.result(), began_ns)
        else:
            logger.error("a request could not be hashed", exc_info=future.exception())
            self._inner.submit(request)

    def _end_hashing(self, request: InferRequest) -> None:
        self._hashing.discard(request)
        if not self._hashing:
            self._hashed.set()

    def _look_up(self, request: InferRequest, digest: bytes, began_ns: int) -> None:
        key = (self._load, digest)
        response = self._cache.find(key)
        ended_ns = self._clock()
        self._cache.counters.lookup_ns += ended_ns - began_ns
        if response is None:
            request.done = _Miss(self, key, request.done, ended_ns - began_ns)
            self._inner.submit(request)
            return
        answer_from_cache(request, response, self._stats, (began_ns, ended_ns), ended_ns)

    def answered(self, key: Key, answer: Answer, lookup_ns: int) -> None:
        """A request that was not found has its answer: it is kept for the next, if it is a good one."""
        if not isinstance(answer, InferResponse) or answer.head.empty:
            return
        began_ns = self._clock()
        if self._cache.fits(answer):
            self._cache.insert(key, answer)
        else:
            logger.warning(
                "Failed to insert key %s into response cache: the answer of model '%s' version %d takes "
                "%d bytes, the cache holds %d",
                key[1].hex(),
                self._stats.model,
                self._stats.version,
                size_of(answer),
                self._cache.counters.size_bytes,
            )
        insertion_ns = self._clock() - began_ns
        self._cache.counters.insertion_ns += insertion_ns
        self._stats.missed_cache(lookup_ns, insertion_ns)


class _Miss:
    """The `done` of a request that the cache did not know."""

    __slots__ = ("_done", "_key", "_lookup_ns", "_scheduler")

    def __init__(self, scheduler: CachingScheduler, key: Key, done: Done, lookup_ns: int) -> None:
        self._scheduler = scheduler
        self._key = key
        self._done = done
        self._lookup_ns = lookup_ns

    def __call__(self, request: InferRequest, answer: Answer) -> None:
        request.done = self._done
        try:
            self._scheduler.answered(self._key, answer, self._lookup_ns)
        except Exception:
            # Of memory there may be too little for a copy: the answer itself is there.
            logger.exception("an answer could not be kept")
        self._done(request, answer)


class _InOrder:
    """The `done` of a request whose answer must not leave before those of the requests that came earlier.

    A fault leaves at once: it is no answer that anybody could take for another's.
    """

    __slots__ = ("_done", "_number", "_order")

    def __init__(self, order: ReleaseOrder[Callable[[], None]], number: int, done: Done) -> None:
        self._order = order
        self._number = number
        self._done = done

    def __call__(self, request: InferRequest, answer: Answer) -> None:
        request.done = self._done
        if isinstance(answer, RuntimeFault):
            try:
                self._done(request, answer)
            finally:
                self._release(_nothing)
        else:
            self._release(partial(self._done, request, answer))

    def _release(self, reply: Callable[[], None]) -> None:
        for due in self._order.finished(self._number, reply):
            try:
                due()
            except Exception:
                # A closed connection must not cost those behind it their answers.
                logger.exception("an answer could not be handed over")


def _nothing() -> None:
    """In place of an answer that has left already."""
