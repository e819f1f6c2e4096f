"""The threads of a server that are not an instance's: what may take long is kept apart from what must not wait."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.spec.layout import OutsideRoot

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

PATIENCE_SECONDS = 10.0
_FILE_THREADS = 2
_LOOK_THREADS = 4
_MOST_THREADS = 4096  # of loads that wait for a process and have left their places, and of unloads


class LoadThreads:
    """Every call runs blocking work; whatever goes wrong comes back as a RuntimeFault.

    `loads` have a place at a time. One that waits for another process leaves its place after `patience`
    seconds, because that process may never answer: no number of hanging models keeps others from loading.
    """

    def __init__(self, loads: int, *, patience: float = PATIENCE_SECONDS) -> None:
        self._places = asyncio.Semaphore(loads)
        self._patience = patience
        self._loads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="model-load")
        self._fetches = ThreadPoolExecutor(loads, thread_name_prefix="model-fetch")
        self._files = ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="model-files")
        self._looks = ThreadPoolExecutor(_LOOK_THREADS, thread_name_prefix="repository")
        self._lock = threading.Lock()
        self._running = 0

    @property
    def busy(self) -> bool:
        """Some work has not returned."""
        return self._running > 0

    async def loading(self, work: Callable[[], Result], *, elsewhere: bool = False) -> Result:
        """`elsewhere`: it is done by another process, for which the work here waits."""
        await self._places.acquire()
        place = _Place(self._places)
        leave_at = self._patience if elsewhere else None
        return await self._in(self._loads, work, place, leave_at)

    async def unloading(self, work: Callable[[], Result]) -> Result:
        """Needs no place: what is to go does not wait for what comes."""
        return await self._in(self._loads, work)

    async def fetching(self, work: Callable[[], Result]) -> Result:
        """Reads a model's files, which may have to come from far away."""
        return await self._in(self._fetches, work)

    async def looking(self, work: Callable[[], Result]) -> Result:
        """Asks the repositories what there is."""
        return await self._in(self._looks, work)

    async def with_files(self, work: Callable[[], Result]) -> Result:
        """On files of this server's own: quick, and waits for no load and no repository."""
        return await self._in(self._files, work)

    def close(self) -> None:
        for pool in (self._loads, self._fetches, self._files, self._looks):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _in(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[], Result],
        place: "_Place | None" = None,
        patience: float | None = None,
    ) -> Result:
        def counted() -> Result:
            self._count(1)
            try:
                return work()
            finally:
                self._count(-1)

        try:
            return await asyncio.wrap_future(_submit(pool, counted, place, patience))
        except RuntimeFault:
            raise
        except OutsideRoot as error:
            raise InvalidArgument(str(error)) from error
        except Exception as error:
            logger.exception("a load failed in a way nobody foresaw")
            raise Internal(f"{type(error).__name__}: {error}") from error

    def _count(self, change: int) -> None:
        with self._lock:
            self._running += change


class _Place:
    """One of those that loads have. Event loop only."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def leave(self) -> None:
        """May be repeated."""
        places, self._places = self._places, None
        if places is not None:
            places.release()


def _submit(
    pool: ThreadPoolExecutor,
    work: Callable[[], Result],
    place: _Place | None,
    patience: float | None,
) -> Future[Result]:
    """The place is left with the end of the work, not of who waits for it: the thread goes on without him."""
    if place is None:
        return pool.submit(work)
    loop = asyncio.get_running_loop()

    def ended(_: Future[Result]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed
            loop.call_soon_threadsafe(place.leave)

    try:
        future = pool.submit(work)
    except BaseException:
        place.leave()
        raise
    future.add_done_callback(ended)
    if patience is not None:
        loop.call_later(patience, place.leave)
    return future
