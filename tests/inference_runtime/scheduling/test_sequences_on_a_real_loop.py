"""Sequences through `build_scheduler`: inline and threads, several instances, under a rate limiter."""

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pytest

from inference_runtime.backends.base import LoadedInstance
from inference_runtime.errors import InvalidArgument, Unavailable
from inference_runtime.routing.validation import plan_request
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.scheduler import SharedParts, build_scheduler
from inference_runtime.spec.messages import InferRequest, InferResponse, RequestHead, TensorHead
from tests.inference_runtime.scheduling.sequence_stage import Accumulator, sequence_config
from tests.inference_runtime.scheduling.stage import fresh_stats

PLACE = 'parameters {{ key: "EXECUTION_PLACEMENT" value {{ string_value: "{}" }} }}'
GROUP = "instance_group { kind: KIND_CPU count: 1 }"
LIMITED = (
    "instance_group {{ kind: KIND_CPU count: 2 "
    "rate_limiter {{ resources {{ name: 'R' global: true count: {} }} }} }}"
)


class Counting(Accumulator):
    """Knows how many execute at once, in all its copies."""

    executing = 0
    most = 0
    lock = threading.Lock()

    def execute(self, inputs: Any, outputs: Any) -> Any:
        with Counting.lock:
            Counting.executing += 1
            Counting.most = max(Counting.most, Counting.executing)
        time.sleep(0.001)
        with Counting.lock:
            Counting.executing -= 1
        return super().execute(inputs, outputs)


class Served:
    def __init__(self, text: str, strategy: str, *, group=GROUP, limiter=None) -> None:
        config = sequence_config(strategy, more=text, group=group, idle_us=300_000)
        self.config = config
        self.scheduler = build_scheduler(
            model_name="seq",
            version=1,
            config=config,
            instances=[LoadedInstance(spec, Counting(config)) for spec in config.instances()],  # type: ignore[arg-type]
            stats=fresh_stats(config),
            shared=SharedParts(limiter=limiter),
        )

    async def step(self, id_: int, value: int, flags: str) -> int:
        head = RequestHead(
            "seq", "", (TensorHead("INPUT0", "INT32", (1, 1)),),
            sequence_id=id_, sequence_start="s" in flags, sequence_end="e" in flags,
        )  # fmt: skip
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = InferRequest(
            head,
            [np.array([value], "<i4").tobytes()],
            lambda _, answer: future.set_result(answer),
            None,
            time.monotonic_ns(),
        )
        request.plan = plan_request(head, self.config, "")
        self.scheduler.submit(request)
        async with asyncio.timeout(20):
            answer = await future
        if not isinstance(answer, InferResponse):
            raise answer
        return int(np.frombuffer(answer.data[0], "<i4")[0])

    async def walk(self, id_: int, count: int) -> list[int]:
        return [
            await self.step(id_, n, "s" * (n == 1) + "e" * (n == count))
            for n in range(1, count + 1)
        ]


@pytest.fixture(autouse=True)
def nobody_executes():
    Counting.most = 0
    yield
    assert Counting.executing == 0


@pytest.mark.parametrize("place", ["inline", "thread", "auto"])
@pytest.mark.parametrize("strategy", ["direct { }", "oldest { }"])
async def test_sequences_side_by_side(strategy, place):
    served = Served(PLACE.format(place), strategy)
    sums = await asyncio.gather(*(served.walk(id_, 5) for id_ in range(1, 21)))
    assert sums == [[1, 3, 6, 10, 15]] * 20
    await served.scheduler.drain()
    gauges = served.scheduler.gauges()
    assert (gauges.pending, gauges.inflight, gauges.busy, gauges.instances) == (0, 0, 0, 1)


@pytest.mark.parametrize("strategy", ["direct { }", "oldest { }"])
async def test_instances_that_share_a_slot_execute_one_at_a_time(strategy):
    limiter = RateLimiter()
    served = Served(PLACE.format("thread"), strategy, group=LIMITED.format(1), limiter=limiter)
    sums = await asyncio.gather(*(served.walk(id_, 4) for id_ in range(1, 13)))
    assert sums == [[1, 3, 6, 10]] * 12
    assert Counting.most == 1
    await served.scheduler.drain()
    assert limiter.use() == []


async def test_a_load_that_the_limiter_refuses_leaves_no_claim():
    """The first instance would fit, the second does not."""
    limiter = RateLimiter({("R", ""): 1})
    groups = " ".join(
        "instance_group { kind: KIND_CPU count: 1 rate_limiter { "
        f"resources {{ name: 'R' global: true count: {count} }} }} }}"
        for count in (1, 3)
    )
    with pytest.raises(InvalidArgument, match='Resource count for "R" is limited to 1'):
        Served("", "direct { }", group=groups, limiter=limiter)
    served = Served("", "direct { }", group=LIMITED.format(1), limiter=limiter)
    assert await served.walk(1, 3) == [1, 3, 6]
    await served.scheduler.drain()
    assert [use.in_use for use in limiter.use()] in ([], [0])


async def test_a_model_without_instances_at_work_settles_what_it_has_when_it_goes():
    served = Served("", "direct { }", group="instance_group { kind: KIND_CPU passive: true }")
    waiting = asyncio.ensure_future(served.step(1, 1, "s"))
    await asyncio.sleep(0)
    await served.scheduler.drain()
    with pytest.raises(Unavailable, match="has stopped accepting"):
        await waiting


async def test_a_drain_in_the_middle_loses_nothing():
    served = Served(PLACE.format("thread"), "oldest { }")
    first = await served.step(1, 1, "s")
    draining = asyncio.ensure_future(served.scheduler.drain())
    await asyncio.sleep(0)
    assert await served.step(1, 2, "") == first + 2
    with pytest.raises(Unavailable):
        await served.step(2, 1, "s")
    assert await served.step(1, 3, "e") == first + 5
    await asyncio.wait_for(draining, 20)
