"""Tasks of a model's event loop that wait where they next await something; the loop goes on without them."""

import asyncio
from concurrent.futures import Future

import pytest

from inference_runtime.backends.python.stub import held_tasks


@pytest.fixture
async def holdable():
    loop = asyncio.get_running_loop()
    held_tasks.allow(loop)
    yield
    loop.set_task_factory(None)


async def test_a_task_waits_at_its_next_await_and_others_do_not(holdable):
    leave: Future[None] = Future()
    seen = []

    async def held():
        assert held_tasks.hold_until(leave)
        seen.append("runs on")
        await asyncio.sleep(0)
        seen.append("has leave")
        return 7

    async def other():
        for _ in range(5):
            await asyncio.sleep(0)
        seen.append("other")

    task = asyncio.create_task(held())
    await asyncio.create_task(other())
    assert seen == ["runs on", "other"]
    leave.set_result(None)
    assert await task == 7
    assert seen[-1] == "has leave"


async def test_a_task_waits_for_one_leave_at_a_time(holdable):
    first, second = Future(), Future()

    async def greedy():
        return [held_tasks.hold_until(each) for each in (first, first, second)]

    assert await asyncio.create_task(greedy()) == [True, True, False]


async def test_a_task_that_waits_can_be_cancelled_and_its_leave_is_not(holdable):
    leave: Future[None] = Future()
    seen = []

    async def held():
        held_tasks.hold_until(leave)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("tidied up")
            raise

    task = asyncio.create_task(held())
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "tidied up"]
    leave.set_result(None)  # and nobody minds
    await asyncio.sleep(0)


async def test_a_task_that_never_began_is_cancelled_in_silence(holdable):
    async def never():
        raise AssertionError

    task = asyncio.create_task(never())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_task_raises_and_what_it_awaits_pass_through(holdable):
    async def inner():
        await asyncio.sleep(0)
        raise ValueError("no")

    async def outer():
        with pytest.raises(ValueError, match="no"):
            await asyncio.create_task(inner())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.get_running_loop().create_future()
        return await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))

    assert await asyncio.create_task(outer()) == [1, 2]


def test_outside_of_such_a_task_there_is_nothing_to_hold():
    assert not held_tasks.hold_until(Future())


async def test_a_callback_of_the_loop_is_no_task(holdable):
    asked = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: asked.set_result(held_tasks.hold_until(Future())))
    assert not await asked
