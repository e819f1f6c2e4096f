"""The threads of a server that are not an instance's: what may take long is kept apart from what must not wait."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.spec.layout import OutsideRoot

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

_FILE_THREADS = 2
_LOOK_THREADS = 4


class LoadThreads:
    """Every call runs blocking work; whatever goes wrong comes back as a RuntimeFault."""

    def __init__(self, loads: int) -> None:
        self._loads = ThreadPoolExecutor(loads, thread_name_prefix="model-load")
        self._fetches = ThreadPoolExecutor(loads, thread_name_prefix="model-fetch")
        self._files = ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="model-files")
        self._looks = ThreadPoolExecutor(_LOOK_THREADS, thread_name_prefix="repository")
        self._lock = threading.Lock()
        self._running = 0

    @property
    def busy(self) -> bool:
        """Some work has not returned."""
        return self._running > 0

    async def loading(self, work: Callable[[], Result]) -> Result:
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

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
        def counted() -> Result:
            self._count(1)
            try:
                return work()
            finally:
                self._count(-1)

        try:
            return await asyncio.get_running_loop().run_in_executor(pool, counted)
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
