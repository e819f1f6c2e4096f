"""An event loop that nothing may go wrong in unnoticed: what servers catch and log is a finding here."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_LOGGER = logging.getLogger("inference_runtime")


class _Inline(ThreadPoolExecutor):
    """Work of threads, done at once: what comes out can be compared."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  it belongs to whoever waits
            future.set_exception(error)
        return future


class _Caught(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Raises what it raises, and what it has caught, in callbacks and tasks, too."""
    caught = _Caught()
    _LOGGER.addHandler(caught)
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Inline(1))
    loop.set_exception_handler(lambda _, context: caught.errors.append(_error(context)))
    # Not asyncio.run, which starts a thread to wait for an executor that has none.
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
        _LOGGER.removeHandler(caught)
    if caught.errors:
        raise caught.errors[0]


def _error(context: dict[str, Any]) -> BaseException:
    return context.get("exception") or AssertionError(context["message"])
