"""A version behind the response cache: what is executed, what is answered, and what is counted."""

import asyncio
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from inference_runtime.errors import Cancelled, Internal, RuntimeFault, Unavailable
from inference_runtime.scheduling.caching_scheduler import INLINE_BYTES
from inference_runtime.scheduling.response_cache import ResponseCache
from inference_runtime.scheduling.scheduler import SharedParts, build_scheduler
from inference_runtime.spec.messages import InferResponse
from inference_runtime.telemetry.statistics_message import model_statistics
from tests.inference_runtime.core_world import eventually
from tests.inference_runtime.scheduling.stage import (
    Clients,
    GatedBackend,
    fresh_stats,
    loaded,
    model_config,
)

MIB = 1 << 20


class Served:
    def __init__(
        self, cache: ResponseCache | None, *, batching="", place="inline", backend=None
    ) -> None:
        self.drained = False
        self.cache = cache
        self.backend = backend or GatedBackend()
        self.config = model_config(
            f"{batching} response_cache {{ enable: true }} "
            f'parameters {{ key: "EXECUTION_PLACEMENT" value {{ string_value: "{place}" }} }}'
        )
        self.stats = fresh_stats(self.config)
        self.scheduler = build_scheduler(
            model_name="batcher",
            version=1,
            config=self.config,
            instances=loaded(self.config, self.backend),
            stats=self.stats,
            shared=SharedParts(cache=cache),
        )
        self.clients = Clients(self.config)
        self.outcomes = self.clients.outcomes

    async def drain(self) -> None:
        self.backend.gate.set()
        if not self.drained:
            self.drained = True
            await self.scheduler.drain()

    def submit(self, rows=1, **more: Any):
        request = self.clients.request(rows, at_ns=time.monotonic_ns(), **more)
        self.scheduler.submit(request)
        return request

    async def ask(self, rows=1, **more: Any):
        request = self.submit(rows, **more)
        await eventually(lambda: request in self.outcomes.answers)
        return self.outcomes.answers[request]

    @property
    def statistics(self):
        return model_statistics(self.stats)


@pytest.fixture
async def serve():
    """Makes versions, and takes them apart in the end."""
    made: list[Served] = []

    def make(*arguments, **more) -> Served:
        made.append(Served(*arguments, **more))
        return made[-1]

    yield make
    for served in made:
        await served.drain()


def first_value(answer: InferResponse) -> float:
    return float(np.frombuffer(answer.data[0], "<f4")[0])


async def test_an_equal_request_is_answered_without_the_model(serve):
    served = serve(ResponseCache(MIB))
    first = await served.ask(2, value=5.0)
    second = await served.ask(2, value=5.0)
    assert [bytes(part) for part in first.data] == list(second.data)
    assert second.head is first.head
    assert first_value(await served.ask(2, value=6.0)) == 6.0
    assert served.backend.batches == [2, 2]
    found = served.statistics
    assert (found.inference_count, found.execution_count) == (4, 2)
    stats = found.inference_stats
    assert (stats.success.count, stats.queue.count, stats.compute_infer.count) == (3, 3, 2)
    assert (stats.cache_hit.count, stats.cache_miss.count) == (1, 2)
    assert stats.cache_hit.ns > 0
    assert stats.cache_miss.ns > 0


async def test_a_hit_is_answered_before_submit_returns(serve):
    served = serve(ResponseCache(MIB))
    await served.ask()
    request = served.submit()
    assert request in served.outcomes.answers


async def test_a_large_request_is_hashed_beside_the_loop_and_found_again(serve):
    served = serve(ResponseCache(64 * MIB))
    length = INLINE_BYTES
    request = served.submit(length=length)
    gauges = served.scheduler.gauges()
    assert (gauges.pending, gauges.inflight) == (1, 1)
    await eventually(lambda: request in served.outcomes.answers)
    await served.ask(length=length)
    assert served.statistics.inference_stats.cache_hit.count == 1


async def test_a_large_request_is_hashed_also_when_there_are_no_threads(serve, monkeypatch):
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    served = serve(ResponseCache(MIB))
    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", refuse)
    assert isinstance(await served.ask(length=INLINE_BYTES), InferResponse)
    assert served.scheduler.inflight == 0


async def test_a_request_that_is_cancelled_while_it_is_hashed_ends_at_once(serve):
    served = serve(ResponseCache(64 * MIB))
    request = served.submit(length=INLINE_BYTES)
    served.scheduler.cancel(request)
    assert isinstance(served.outcomes.fault(request), Cancelled)
    await served.drain()
    assert served.backend.batches == []
    assert served.outcomes.repeated == 0


async def test_faults_are_not_kept(serve):
    served = serve(ResponseCache(MIB))
    served.backend.failure = Internal("once")
    assert isinstance(await served.ask(), Internal)
    served.backend.failure = None
    assert isinstance(await served.ask(), InferResponse)
    stats = served.statistics.inference_stats
    assert (stats.cache_miss.count, stats.cache_hit.count, stats.fail.count) == (1, 0, 1)


async def test_an_answer_too_large_for_the_cache_is_logged_and_still_an_answer(serve, caplog):
    served = serve(ResponseCache(100))
    for _ in range(2):
        assert isinstance(await served.ask(), InferResponse)
    assert caplog.text.count("Failed to insert key") == 2
    stats = served.statistics.inference_stats
    assert (stats.cache_miss.count, stats.cache_hit.count) == (2, 0)


async def test_equal_requests_at_the_same_time_are_all_executed(serve):
    served = serve(ResponseCache(MIB), place="thread", backend=GatedBackend(open_=False))
    requests = [served.submit() for _ in range(3)]
    served.backend.gate.set()
    await eventually(lambda: len(served.outcomes.order) == 3)
    assert served.backend.batches == [1, 1, 1]
    assert set(served.outcomes.succeeded()) == set(requests)
    assert served.cache.counters.entries == 1


async def test_entries_die_with_the_load_they_came_from(serve):
    cache = ResponseCache(MIB)
    old = serve(cache)
    await old.ask()
    new = serve(cache)
    await new.ask()
    assert new.backend.batches == [1]
    await old.drain()
    assert cache.counters.entries == 1
    await new.ask()
    assert new.statistics.inference_stats.cache_hit.count == 1


async def test_a_version_that_drains_refuses_and_waits_for_what_is_hashed(serve):
    served = serve(ResponseCache(64 * MIB))
    await served.ask()
    large = served.submit(length=INLINE_BYTES)
    leaving = asyncio.ensure_future(served.drain())
    await asyncio.sleep(0)
    late = served.submit()
    assert isinstance(served.outcomes.fault(late), Unavailable)
    await leaving
    assert isinstance(served.outcomes.response(large), InferResponse)


async def test_hits_keep_the_order_where_the_config_asks_for_it(serve):
    gate = GatedBackend(open_=True)
    served = serve(
        ResponseCache(MIB),
        place="thread",
        batching="dynamic_batching { preserve_ordering: true }",
        backend=gate,
    )
    await served.ask(value=1.0)
    gate.gate.clear()
    slow = served.submit(value=2.0)
    hit = served.submit(value=1.0)
    assert hit not in served.outcomes.answers
    gate.gate.set()
    await eventually(lambda: len(served.outcomes.order) == 3)
    assert served.outcomes.order[1:] == [slow, hit]


async def test_a_fault_does_not_hold_up_the_order(serve):
    served = serve(
        ResponseCache(MIB),
        place="thread",
        batching="dynamic_batching { preserve_ordering: true }",
        backend=GatedBackend(open_=False),
    )
    slow = served.submit(value=1.0)
    await eventually(lambda: served.backend.batches == [1])
    gone = served.submit(value=2.0)
    served.scheduler.cancel(gone)
    assert isinstance(served.outcomes.fault(gone), Cancelled)
    served.backend.gate.set()
    await eventually(lambda: slow in served.outcomes.answers)
    assert isinstance(await served.ask(value=1.0), InferResponse)


async def test_a_fault_for_a_closed_connection_does_not_hold_up_the_order(serve):
    served = serve(
        ResponseCache(MIB),
        place="thread",
        batching="dynamic_batching { preserve_ordering: true }",
        backend=GatedBackend(open_=False),
    )

    def closed(request: Any, answer: Any) -> None:
        raise ConnectionError("closed")

    first = served.clients.request(value=1)
    first.done = closed
    served.scheduler.submit(first)
    second = served.submit(value=2)
    served.scheduler.cancel(first)
    served.backend.gate.set()
    await eventually(lambda: second in served.outcomes.answers)
    assert isinstance(served.outcomes.answers[second], InferResponse)


async def test_an_answer_that_can_not_be_kept_is_still_an_answer(serve, monkeypatch, caplog):
    served = serve(ResponseCache(MIB))

    def no_memory(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(served.cache, "insert", no_memory)
    assert isinstance(await served.ask(value=1), InferResponse)
    assert isinstance(await served.ask(value=1), InferResponse)
    assert "an answer could not be kept" in caplog.text


async def test_without_a_cache_the_scheduler_is_the_plain_one_and_says_so(serve, caplog):
    served = serve(None)
    assert type(served.scheduler).__name__ == "Dispatcher"
    assert "enables the response cache, and this server has none" in caplog.text
    await served.ask()
    await served.ask()
    assert served.backend.batches == [1, 1]


steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "cancel", "turn"]),
        st.integers(0, 5),
        st.sampled_from([4, INLINE_BYTES // 4]),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps_=steps, ordered=st.booleans(), size=st.sampled_from([100, 5000, MIB]))
@pytest.mark.filterwarnings("ignore")
def test_each_request_ends_once_with_its_own_answer_and_the_counts_add_up(steps_, ordered, size):
    asyncio.run(_story(steps_, ordered, size))


async def _story(steps_, ordered, size) -> None:
    batching = f"dynamic_batching {{ preserve_ordering: {str(ordered).lower()} }}"
    served = Served(ResponseCache(size), batching=batching, place="thread")
    sent: list[tuple[Any, float]] = []
    for word, number, length in steps_:
        match word:
            case "send":
                sent.append((served.submit(value=number, length=length), number))
            case "cancel" if number < len(sent):
                served.scheduler.cancel(sent[-1 - number][0])
            case "turn":
                await asyncio.sleep(0.001)
    await served.drain()
    outcomes = served.outcomes
    assert outcomes.repeated == 0
    assert set(outcomes.answers) == {request for request, _ in sent}
    for request, value in sent:
        answer = outcomes.answers[request]
        assert isinstance(answer, RuntimeFault) or first_value(answer) == value
    good = outcomes.succeeded()
    if ordered:
        assert good == [request for request, _ in sent if request in set(good)]
    found = served.statistics
    stats = found.inference_stats
    assert stats.success.count == len(good)
    assert stats.cache_hit.count + stats.cache_miss.count == len(good)
    assert stats.compute_infer.count == len(good) - stats.cache_hit.count == found.inference_count
    assert sum(arm.successes for arm in served.stats.arms.values()) == len(good)
    assert sum(served.stats.failures.values()) == len(sent) - len(good)
    gauges = served.scheduler.gauges()
    assert (gauges.pending, gauges.inflight, gauges.busy) == (0, 0, 0)
    assert served.cache.counters.entries == served.cache.counters.used_bytes == 0
