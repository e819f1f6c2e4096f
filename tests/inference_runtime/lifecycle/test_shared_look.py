"""Looks at the repositories are shared, and none is older than the question."""

import asyncio

from inference_runtime.lifecycle.shared_look import SharedLook


class Looks:
    def __init__(self) -> None:
        self.begun = 0
        self.gates: list[asyncio.Event] = []

    async def look(self) -> int:
        self.begun += 1
        number, gate = self.begun, asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        return number


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_asks_during_a_look_gets_the_next_one():
    looks = Looks()
    shared = SharedLook(looks.look)
    first = asyncio.create_task(shared())
    await settle()
    later = [asyncio.create_task(shared()) for _ in range(10)]
    await settle()
    assert looks.begun == 1
    later[0].cancel()
    looks.gates[0].set()
    assert await first == 1
    await settle()
    assert looks.begun == 2
    looks.gates[1].set()
    assert await asyncio.gather(*later[1:]) == [2] * 9
    last = asyncio.create_task(shared())
    await settle()
    looks.gates[2].set()
    assert await last == 3


async def test_a_look_that_fails_fails_for_those_who_share_it_only():
    failures = [OSError("away")]

    async def look() -> str:
        await asyncio.sleep(0)
        if failures:
            raise failures.pop()
        return "found"

    shared = SharedLook(look)
    first, second = asyncio.create_task(shared()), asyncio.create_task(shared())
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(result) for result in results] == [OSError, OSError]
    assert await shared() == "found"
