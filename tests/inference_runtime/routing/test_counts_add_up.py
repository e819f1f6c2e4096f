"""Through the runtime as a whole: every request is counted once, and what was in use is free in the end."""

import asyncio
import re
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from inference_runtime.errors import RuntimeFault
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.response_cache import ResponseCache
from inference_runtime.scheduling.scheduler import SharedParts
from inference_runtime.spec.messages import InferResponse
from tests.conformance.limited_models import need, write_echo
from tests.inference_runtime.core_world import WAIT_SECONDS, core_world, data_of, head_of

MODELS = ("batched", "limited", "scarce", "cached", "nobody")
BOUNDED = "dynamic_batching { default_queue_policy { max_queue_size: 3 } }"

COUNTED = "runtime_requests_total"
GAUGES = (
    "nv_inference_pending_request_count",
    "runtime_inflight_requests",
    "runtime_instances_busy",
    "runtime_slots_in_use",
    "runtime_slots_waiting",
)

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.sampled_from(MODELS),
            st.sampled_from(["", "", "1", "9"]),  # version
            st.sampled_from([1, 1, 2, 9]),  # rows: 9 are too many
        ),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("turns"), st.integers(1, 5)),
        st.tuples(st.just("load"), st.sampled_from(MODELS[:-1])),
        st.tuples(st.just("unload"), st.sampled_from(MODELS[:-1])),
    ),
    max_size=40,
)


class Story:
    def __init__(self, world: Any) -> None:
        self.world = world
        self.sent: list[tuple[Any, asyncio.Future[Any]]] = []

    async def tell(self, steps_: list[tuple[Any, ...]]) -> None:
        for step in steps_:
            match step:
                case ("send", model, version, rows):
                    self._send(model, version, rows)
                case ("cancel", number) if number < len(self.sent):
                    self.world.core.cancel(self.sent[-1 - number][0])
                case ("turns", number):
                    for _ in range(number):
                        await asyncio.sleep(0)
                case ("load" | "unload" as word, model):
                    await getattr(self.world, word)(model)

    def _send(self, model: str, version: str, rows: int) -> None:
        inputs = {"INPUT0": np.full((rows, 4), len(self.sent) % 3, np.float32)}
        self.sent.append(self.world.submit(head_of(model, inputs, version), data_of(inputs)))


@settings(max_examples=15, deadline=None)
@given(steps_=steps)
def test_every_request_is_counted_once_and_gauges_return_to_0(steps_, tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_echo(path, "batched", more=BOUNDED)
    write_echo(path, "limited", needs=need("R"), instances=2)
    write_echo(path, "scarce", needs=need("R", 2, priority=2), more="dynamic_batching { }")
    write_echo(path, "cached", more="response_cache { enable: true }")
    asyncio.run(_counted(path, steps_))


async def _counted(path, steps_) -> None:
    limiter = RateLimiter()
    cache = ResponseCache(4000)
    async with core_world(path, shared=SharedParts(limiter, cache)) as world:
        for model in MODELS[:-1]:
            await world.load(model)
        story = Story(world)
        await story.tell(steps_)
        async with asyncio.timeout(WAIT_SECONDS):
            answers = [await future for _, future in story.sent]
        good = sum(isinstance(answer, InferResponse) for answer in answers)
        assert all(isinstance(answer, InferResponse | RuntimeFault) for answer in answers)
        found = totals(world.core.metrics_text().decode())
        assert found[COUNTED, "success"] == good
        outcomes = sum(
            count
            for (name, _), count in found.items()
            if name in (COUNTED, "runtime_unrouted_requests_total")
        )
        assert outcomes == len(story.sent)
        assert all(found[gauge, ""] == 0 for gauge in GAUGES)
        hits = found["nv_cache_num_hits_per_model", ""]
        assert found["nv_inference_exec_count", ""] + hits <= len(story.sent)
    assert limiter.use() == []


def totals(text: str) -> dict[tuple[str, str], float]:
    """Sums of every family, by outcome where it has one."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for series, value in re.findall(r"^([a-z].*) (\S+)$", text, re.MULTILINE):
        outcome = re.search(r'outcome="(\w+)"', series)
        found[series.partition("{")[0], outcome[1] if outcome else ""] += float(value)
    return found
