"""Loads have a place at a time, and what may hang for ever keeps none."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from inference_runtime.lifecycle.load_threads import LoadThreads


@pytest.fixture
def gate():
    """What hangs goes on when the test is over."""
    opened = threading.Event()
    yield opened
    opened.set()


async def begun(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 20)


def hanging(gate: threading.Event) -> tuple[threading.Event, Callable[[], None]]:
    here = threading.Event()

    def work() -> None:
        here.set()
        gate.wait()

    return here, work


async def test_loads_that_wait_for_another_process_keep_nobody_from_loading(gate):
    threads = LoadThreads(2, patience=0.05)
    waiting = [asyncio.create_task(threads.loading(gate.wait, elsewhere=True)) for _ in range(6)]
    assert await asyncio.wait_for(threads.loading(lambda: "loaded"), 20) == "loaded"
    assert not any(task.done() for task in waiting)
    gate.set()
    await asyncio.gather(*waiting)
    assert not threads.busy


async def test_other_loads_keep_their_places_to_the_end(gate):
    threads = LoadThreads(1, patience=0.0)
    here, work = hanging(gate)
    first = asyncio.create_task(threads.loading(work))
    await begun(here)
    second = asyncio.create_task(threads.loading(lambda: "loaded"))
    await asyncio.wait([second], timeout=0.1)
    assert not second.done()
    gate.set()
    await first
    assert await second == "loaded"


async def test_a_place_is_free_when_the_work_has_ended_and_not_when_nobody_waits_for_it(gate):
    threads = LoadThreads(1)
    here, work = hanging(gate)
    first = asyncio.create_task(threads.loading(work))
    await begun(here)
    first.cancel()
    second = asyncio.create_task(threads.loading(lambda: "loaded"))
    await asyncio.wait([first, second], timeout=0.1)
    assert first.cancelled()
    assert not second.done()
    gate.set()
    assert await second == "loaded"


async def test_what_is_to_go_waits_for_no_load(gate):
    threads = LoadThreads(1)
    here, work = hanging(gate)
    load = asyncio.create_task(threads.loading(work))
    await begun(here)
    assert await asyncio.wait_for(threads.unloading(lambda: "gone"), 20) == "gone"
    gate.set()
    await load
