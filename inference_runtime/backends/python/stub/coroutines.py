"""The one event loop of a model's process, on a thread of its own, made when the first coroutine comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from inference_runtime.backends.python.stub import held_tasks

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def start(coroutine: Coroutine[Any, Any, Any], *, holdable: bool = False) -> Future[Any]:
    """`holdable`: it may be made to wait, and so may the tasks that begin from now on."""
    with _lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="triton-event-loop", daemon=True).start()
            _loops.append(loop)
    if holdable:
        held_tasks.allow(_loops[0])
    return asyncio.run_coroutine_threadsafe(coroutine, _loops[0])


def value(result: Any) -> Any:
    """What a function gave, when it was a coroutine function: what that gave."""
    return start(result).result() if asyncio.iscoroutine(result) else result
