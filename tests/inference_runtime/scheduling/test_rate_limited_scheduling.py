"""Schedulers under one rate limiter: who executes when, and that slots come back whatever happens."""

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.scheduler import SharedParts, build_scheduler
from inference_runtime.spec.messages import InferResponse
from tests.inference_runtime.core_world import eventually
from tests.inference_runtime.scheduling.stage import (
    BATCHER,
    Clients,
    GatedBackend,
    Outcomes,
    fresh_stats,
    loaded,
    model_config,
)

NEED = "resources {{ name: 'R' global: true count: {count} }} priority: {priority}"


class Served:
    """One version under the limiter, on backends with gates."""

    def __init__(
        self, limiter, name, *, count=1, priority=1, place="thread", batching="", instances=1
    ) -> None:
        base = BATCHER.replace('"batcher"', f'"{name}"')
        needs = NEED.format(count=count, priority=priority)
        self.config = model_config(
            f"{batching} instance_group {{ kind: KIND_CPU count: {instances} "
            f"rate_limiter {{ {needs} }} }} "
            f'parameters {{ key: "EXECUTION_PLACEMENT" value {{ string_value: "{place}" }} }}',
            base=base,
        )
        self.backends = [GatedBackend(open_=False) for _ in range(instances)]
        self.stats = fresh_stats(self.config)
        specs = list(self.config.instances())
        self.scheduler = build_scheduler(
            model_name=name,
            version=1,
            config=self.config,
            instances=[
                type(one)(spec, one.backend)
                for spec, one in zip(specs, loaded(self.config, *self.backends), strict=True)
            ],
            stats=self.stats,
            shared=SharedParts(limiter=limiter),
        )
        self.drained = False
        self.outcomes = Outcomes()
        self.clients = Clients(self.config, self.outcomes)

    def send(self, count=1, **more):
        now_ns = time.monotonic_ns()
        requests = [self.clients.request(1, at_ns=now_ns, **more) for _ in range(count)]
        for request in requests:
            self.scheduler.submit(request)
        return requests

    async def drain(self) -> None:
        if not self.drained:
            self.drained = True
            self.open()
            await self.scheduler.drain()

    def open(self) -> None:
        for backend in self.backends:
            backend.gate.set()

    @property
    def executions(self) -> int:
        return sum(len(backend.batches) for backend in self.backends)


@pytest.fixture
async def serve():
    """Makes versions, and takes them apart in the end."""
    made: list[Served] = []

    def make(*arguments, **more) -> Served:
        made.append(Served(*arguments, **more))
        return made[-1]

    yield make
    for served in made:
        served.open()
    for served in made:
        await served.drain()


def in_use(limiter) -> int:
    return sum(use.in_use for use in limiter.use())


async def test_models_that_share_one_slot_execute_one_at_a_time(serve):
    limiter = RateLimiter()
    first, second = serve(limiter, "first"), serve(limiter, "second")
    first.send(1)
    await eventually(lambda: first.executions == 1)
    second.send(1)
    await asyncio.sleep(0.05)
    assert second.executions == 0
    assert [use.waiting for use in limiter.use()] == [1]
    first.open()
    await eventually(lambda: second.executions == 1)
    second.open()
    await eventually(lambda: len(second.outcomes.order) == 1)
    assert in_use(limiter) == 0
    await first.drain()
    await second.drain()
    assert limiter.use() == []


@pytest.mark.parametrize("place", ["inline", "thread"])
@pytest.mark.parametrize("batching", ["", "dynamic_batching { }"])
async def test_priorities_share_a_scarce_slot_two_to_one(place, batching, serve):
    limiter = RateLimiter()
    first = serve(limiter, "first", place=place, batching=batching)
    second = serve(limiter, "second", priority=2, place=place, batching=batching)
    order = first.outcomes.order
    second.clients.outcomes = first.outcomes
    # Shapes of their own, so that no two requests share a batch.
    for each in (first, second):
        each.open()
        for length in range(1, 81):
            each.send(1, length=length)
    await eventually(lambda: len(order) == 160)
    counts = Counter(
        request.head.model_name for request in order[:90]
    )  # both have work all the while
    assert counts["first"] == pytest.approx(60, abs=3)
    assert in_use(limiter) == 0
    await first.drain()
    await second.drain()


async def test_a_failing_model_gives_its_slots_back(serve):
    limiter = RateLimiter()
    failing, other = serve(limiter, "failing"), serve(limiter, "other")
    failing.backends[0].failure = SystemExit("the model ended its process")
    failing.open()
    other.open()
    failing.send(3)
    other.send(3)
    await eventually(lambda: len(failing.outcomes.order) + len(other.outcomes.order) == 6)
    assert all(isinstance(answer, Internal) for answer in failing.outcomes.answers.values())
    assert len(other.outcomes.succeeded()) == 3
    assert in_use(limiter) == 0


async def test_a_cancelled_request_leaves_its_claim_to_others(serve):
    limiter = RateLimiter()
    holder, waiting, third = (serve(limiter, name) for name in ("holder", "waiting", "third"))
    holder.send(1)
    await eventually(lambda: holder.executions == 1)
    (request,) = waiting.send(1)
    third.send(1)
    await asyncio.sleep(0.02)
    waiting.scheduler.cancel(request)
    for each in (holder, waiting, third):
        each.open()
    await eventually(lambda: len(third.outcomes.order) == 1)
    assert waiting.executions == 0
    await eventually(lambda: in_use(limiter) == 0)


async def test_requests_that_wait_for_company_hold_no_slots(serve):
    limiter = RateLimiter()
    delay = "dynamic_batching { preferred_batch_size: 8 max_queue_delay_microseconds: 300000 }"
    patient = serve(limiter, "patient", batching=delay)
    other = serve(limiter, "other")
    patient.open()
    other.open()
    patient.send(1)
    await asyncio.sleep(0.01)
    other.send(1)
    await eventually(lambda: len(other.outcomes.order) == 1)
    assert patient.executions == 0
    await eventually(lambda: len(patient.outcomes.order) == 1)
    assert in_use(limiter) == 0


async def test_a_version_that_is_taken_apart_leaves_nothing_behind(serve):
    limiter = RateLimiter()
    large, small = serve(limiter, "large", count=4), serve(limiter, "small")
    large.send(2)
    await eventually(lambda: large.executions == 1)
    leaving = asyncio.ensure_future(large.drain())
    await leaving
    assert len(large.outcomes.succeeded()) == 2
    assert [(use.capacity, use.in_use) for use in limiter.use()] == [(1, 0)]
    await small.drain()


async def test_a_load_that_is_refused_leaves_no_claim(serve):
    limiter = RateLimiter()
    with pytest.raises(InvalidArgument, match="EXECUTION_PLACEMENT"):
        serve(limiter, "m", count=9, place="nowhere")
    assert limiter.use() == []


async def test_without_resources_a_version_has_a_group_of_the_plain_kind():
    limiter = RateLimiter()
    config = model_config()
    scheduler = build_scheduler(
        model_name="m",
        version=1,
        config=config,
        instances=loaded(config, GatedBackend()),
        stats=fresh_stats(config),
        shared=SharedParts(limiter=limiter),
    )
    assert limiter.use() == []
    await scheduler.drain()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("cancel"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("turns"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("capacity"), st.integers(3, 6), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps_=steps, place=st.sampled_from(["inline", "thread"]))
def test_whatever_happens_every_request_ends_once_and_all_slots_come_back(steps_, place):
    asyncio.run(_story(steps_, place))


async def _story(steps_, place) -> None:
    limiter = RateLimiter()
    served = [
        Served(limiter, "one", count=1, place=place, instances=2),
        Served(limiter, "two", count=2, place=place, batching="dynamic_batching { }"),
        Served(limiter, "three", count=3, place=place, priority=2),
    ]
    served[2].backends[0].failure = Internal("the model failed")
    sent: list[Any] = []
    for each in served:
        each.open()
    for step in steps_:
        await _step(step, limiter, served, sent)
        assert all(use.in_use <= 6 for use in limiter.use())
    await eventually(lambda: sum(len(each.outcomes.order) for each in served) == len(sent))
    await eventually(lambda: in_use(limiter) == 0)
    assert all(use.waiting == 0 for use in limiter.use())
    for each in served:
        assert each.outcomes.repeated == 0
        answers = each.outcomes.answers.values()
        assert all(isinstance(answer, InferResponse | RuntimeFault) for answer in answers)
        await each.drain()
        assert each.scheduler.gauges().inflight == each.scheduler.gauges().busy == 0
    # Only a capacity that was set is left.
    assert all(use.holders == () for use in limiter.use())


async def _step(step, limiter, served, sent) -> None:
    match step:
        case ("send", number, count):
            sent += [(served[number], request) for request in served[number].send(count)]
        case ("cancel", number, _) if number < len(sent):
            owner, request = sent[number]
            owner.scheduler.cancel(request)
        case ("turns", number, _):
            for _ in range(number):
                await asyncio.sleep(0)
        case ("capacity", number, _):
            for use in limiter.use():
                limiter.change({use.pool: number})
