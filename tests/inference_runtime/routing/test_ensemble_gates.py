"""`max_inflight_requests` of ensembles where steps end at once: out of the cache, or refused."""

import asyncio

import numpy as np
import pytest

from inference_runtime.errors import FaultCode, Unavailable
from inference_runtime.routing.validation import plan_request
from inference_runtime.scheduling.ensemble_scheduler import EnsembleScheduler
from inference_runtime.scheduling.response_cache import ResponseCache
from inference_runtime.scheduling.scheduler import SharedParts
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.messages import InferRequest, InferResponse, ResponseHead, TensorHead
from tests.inference_runtime.core_world import WAIT_SECONDS, core_world, data_of, head_of
from tests.inference_runtime.routing.ensembles import step, write_adders, write_ensemble
from tests.inference_runtime.scheduling.stage import Outcomes, fresh_stats, model_config

X = np.array([[1, 2, 3, 4]], np.float32)
SLOW = """
backend: "identity" max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [4] }
instance_group { count: 1 kind: KIND_CPU }
parameters { key: "execute_delay_ms" value { string_value: "60" } }
"""


@pytest.fixture
async def world(tmp_path):
    write_adders(tmp_path)
    async with core_world(tmp_path, shared=SharedParts(cache=ResponseCache(1 << 20))) as world:
        yield world


async def test_hundreds_that_wait_for_a_step_that_answers_from_its_cache_are_all_answered(world):
    (world.path / "slow" / "1").mkdir(parents=True)
    (world.path / "slow" / "config.pbtxt").write_text(SLOW + "response_cache { enable: true }")
    steps = step("slow", {"INPUT0": "IN"}, {"OUTPUT0": "OUT"}) + "max_inflight_requests: 1"
    write_ensemble(world.path, "narrow", steps)
    await world.load("narrow")
    futures = [
        world.submit(head_of("narrow", {"IN": X}), data_of({"IN": X}))[1] for _ in range(600)
    ]
    async with asyncio.timeout(WAIT_SECONDS):
        answers = await asyncio.gather(*futures)
    assert all(isinstance(answer, InferResponse) for answer in answers)
    assert world.core.inflight() == {}


class Steps:
    """Stands for the models: keeps what it is asked, and refuses at once once it is `full`."""

    def __init__(self) -> None:
        self.asked: list[InferRequest] = []
        self.full = False
        self.port = InferencePort()
        self.port.bind(self.infer, lambda request: None)

    def infer(self, request: InferRequest) -> None:
        if self.full:
            request.done(request, Unavailable("Exceeds maximum queue size"))
        else:
            self.asked.append(request)

    def of(self, model: str) -> list[InferRequest]:
        return [request for request in self.asked if request.head.model_name == model]


def response(model: str, outputs: tuple[str, ...]) -> InferResponse:
    heads = tuple(TensorHead(name, "INT32", (1,)) for name in outputs)
    return InferResponse(
        ResponseHead(model, "1", heads, empty=not outputs), [bytes(4)] * len(heads)
    )


async def test_a_request_whose_next_step_is_refused_ends_though_more_of_its_steps_wait():
    config = model_config(
        "ensemble_scheduling { max_inflight_requests: 1 "
        + step("many", {"IN": "IN"}, {"OUT": "one"})
        + step("last", {"IN": "one"}, {"OUT": "OUT"})
        + "}",
        base="""
        name: "stream" platform: "ensemble" model_transaction_policy { decoupled: true }
        input { name: "IN" data_type: TYPE_INT32 dims: [1] }
        output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
        """,
    )
    steps = Steps()
    ensemble = EnsembleScheduler(
        config,
        decoupled=(True, False),
        version=1,
        stats=fresh_stats(config),
        inference=steps.port,
    )
    outcomes = Outcomes()
    inputs = {"IN": np.zeros(1, np.int32)}
    request = InferRequest(head_of("stream", inputs), data_of(inputs), outcomes.done, None, 0)
    request.partial = lambda *_: None
    request.plan = plan_request(request.head, config, "")
    ensemble.submit(request)
    [producer] = steps.of("many")
    assert producer.partial is not None
    for _ in range(4):
        producer.partial(producer, response("many", ("OUT",)))
    [first] = steps.of("last")
    steps.full = True
    first.done(first, response("last", ("OUT",)))
    assert not outcomes.answers  # one step of the request still runs
    producer.done(producer, response("many", ()))
    assert [answer.code for answer in outcomes.answers.values()] == [FaultCode.UNAVAILABLE]
    assert (outcomes.repeated, ensemble.inflight, len(steps.asked)) == (0, 0, 2)
