"""build_scheduler with real loops and real threads: answers, faults, draining."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import uvloop

from inference_runtime.backends.base import ModelArtifact
from inference_runtime.backends.identity_backend import IdentityBackend
from inference_runtime.errors import FailureReason, FaultCode, Internal, InvalidArgument
from inference_runtime.scheduling.scheduler import build_scheduler
from tests.inference_runtime.scheduling.stage import (
    Clients,
    GatedBackend,
    fresh_stats,
    loaded,
    model_config,
)

PLACES = ("inline", "thread", "auto")


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


class Stage:
    def __init__(self, *backends: Any, place: str = "thread", batching: str = "") -> None:
        self.config = model_config(
            f"dynamic_batching {{ {batching} }} "
            f'parameters {{ key: "EXECUTION_PLACEMENT" value {{ string_value: "{place}" }} }}'
        )
        self.stats = fresh_stats(self.config)
        self.scheduler = build_scheduler(
            model_name="batcher",
            version=3,
            config=self.config,
            instances=loaded(self.config, *backends),
            stats=self.stats,
        )
        self.clients = Clients(self.config)
        self.outcomes = self.clients.outcomes

    def send(self, count: int = 1, **options: Any) -> list[Any]:
        requests = []
        for index in range(count):
            at_ns = time.monotonic_ns()
            requests.append(self.clients.request(at_ns=at_ns, value=index, **options))
            self.scheduler.submit(requests[-1])
        return requests

    async def answered(self, count: int) -> None:
        await until(lambda: len(self.outcomes.order) >= count)


async def until(condition: Callable[[], bool], limit_seconds: float = 20.0) -> None:
    end = time.monotonic() + limit_seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.001)


def identity() -> IdentityBackend:
    backend = IdentityBackend({})
    config = model_config()
    backend.load(ModelArtifact("batcher", 3, None, None), config, next(config.instances()))  # type: ignore[arg-type]
    return backend


@pytest.mark.parametrize("place", PLACES)
def test_everyone_gets_his_own_answer(run, place):
    async def story() -> None:
        stage = Stage(identity(), place=place)
        for round_ in range(20):
            stage.send(round_ + 1)
            await stage.answered(sum(range(round_ + 2)))
        for request in stage.outcomes.order:
            response = stage.outcomes.response(request)
            assert [bytes(data) for data in response.data] == [bytes(d) for d in request.data]
            assert response.head.model_version == "3"
            assert [output.shape for output in response.head.outputs] == [(1, 4), (1, 4)]
        assert stage.outcomes.repeated == 0
        assert stage.stats.device().successes == 210
        await stage.scheduler.drain()

    run(story())


def test_125_requests_for_other_outputs_share_a_batch_and_get_what_they_asked_for(run):
    async def story() -> None:
        backend = GatedBackend()
        stage = Stage(backend)
        every = stage.send(1)[0]
        (second,) = stage.send(1, outputs=["OUTPUT1"])
        (swapped,) = stage.send(1, outputs=["OUTPUT1", "OUTPUT0"])
        (three,) = stage.send(1, outputs=["OUTPUT0"], rows=3)
        await stage.answered(4)
        assert backend.batches == [6]
        names = {
            request: [output.name for output in stage.outcomes.response(request).head.outputs]
            for request in (every, second, swapped, three)
        }
        assert names[every] == ["OUTPUT0", "OUTPUT1"]
        assert names[second] == ["OUTPUT1"]
        assert sorted(names[swapped]) == ["OUTPUT0", "OUTPUT1"]
        assert names[three] == ["OUTPUT0"]
        assert bytes(stage.outcomes.response(second).data[0]) == bytes(second.data[1])
        assert bytes(stage.outcomes.response(three).data[0]) == bytes(three.data[0])
        assert stage.outcomes.response(three).head.outputs[0].shape == (3, 4)
        await stage.scheduler.drain()

    run(story())


def test_each_instance_has_a_thread_of_its_own(run):
    async def story() -> None:
        backends = [GatedBackend(open_=False), GatedBackend(open_=False)]
        stage = Stage(*backends)
        stage.send(1)
        stage.send(1, length=5)
        await until(lambda: all(backend.batches for backend in backends))
        for backend in backends:
            backend.gate.set()
        await stage.answered(2)
        stage.send(1)
        stage.send(1, length=5)
        await stage.answered(4)
        first, second = (backend.threads for backend in backends)
        assert len(first) == len(second) == 1
        assert first.isdisjoint(second)
        assert threading.get_ident() not in first | second
        await stage.scheduler.drain()
        await until(lambda: not any(t.name.startswith("instance-") for t in threading.enumerate()))

    run(story())


def test_inline_runs_on_the_loops_own_thread(run):
    async def story() -> None:
        backend = GatedBackend()
        stage = Stage(backend, place="inline")
        stage.send(5)
        await stage.answered(5)
        assert backend.threads == {threading.get_ident()}
        await stage.scheduler.drain()

    run(story())


@pytest.mark.parametrize("place", ["inline", "thread"])
@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (Internal("onnx runtime error 1: no"), "onnx runtime error 1: no"),
        (ValueError("bad luck"), "ValueError: bad luck"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_failing_batch_fails_its_requests_and_the_next_one_works(run, place, failure, text):
    async def story() -> None:
        backend = GatedBackend()
        backend.failure = failure
        stage = Stage(backend, place=place)
        requests = stage.send(3)
        await stage.answered(3)
        assert {stage.outcomes.fault(request).text for request in requests} == {text}
        assert stage.outcomes.fault(requests[0]).code is FaultCode.INTERNAL
        assert stage.stats.failures[FailureReason.BACKEND] == 3
        assert stage.stats.failed == 3
        backend.failure = None
        (good,) = stage.send(1)
        await stage.answered(4)
        stage.outcomes.response(good)
        await stage.scheduler.drain()

    run(story())


@pytest.mark.parametrize("place", ["inline", "thread"])
def test_even_an_exit_in_a_model_does_not_end_the_instance(run, place):
    async def story() -> None:
        backend = GatedBackend()
        backend.failure = SystemExit(3)
        stage = Stage(backend, place=place)
        (request,) = stage.send(1)
        await stage.answered(1)
        assert stage.outcomes.fault(request).text == "SystemExit: 3"
        backend.failure = None
        (good,) = stage.send(1)
        await stage.answered(2)
        stage.outcomes.response(good)
        await stage.scheduler.drain()

    run(story())


def test_a_wrong_answer_of_a_backend_is_a_fault_and_no_nonsense(run):
    class Careless(GatedBackend):
        def execute(self, inputs: Any, outputs: Any) -> Any:
            super().execute(inputs, outputs)
            return [inputs[0].astype(np.float64), inputs[1][:1]]

    async def story() -> None:
        stage = Stage(Careless())
        (request,) = stage.send(1)
        await stage.answered(1)
        assert "data-type float64, but the config says FP32" in stage.outcomes.fault(request).text
        await stage.scheduler.drain()

    run(story())


@pytest.mark.parametrize("place", PLACES)
def test_draining_finishes_what_was_accepted_and_refuses_the_rest(run, place):
    async def story() -> None:
        stage = Stage(
            identity(),
            place=place,
            batching="preferred_batch_size: 8 max_queue_delay_microseconds: 20000000",
        )
        accepted = stage.send(3)
        draining = asyncio.create_task(stage.scheduler.drain())
        await asyncio.sleep(0)
        (late,) = stage.send(1, id_="9")
        await asyncio.wait_for(draining, 10)
        assert all(stage.outcomes.response(request) for request in accepted)
        fault = stage.outcomes.fault(late)
        assert fault.code is FaultCode.UNAVAILABLE
        assert fault.text.startswith("[request id: 9] Server is stopping, scheduler for model has")
        assert stage.scheduler.inflight == 0
        assert stage.stats.failed == 0
        await stage.scheduler.drain()

    run(story())


def test_draining_waits_for_a_batch_that_runs(run):
    async def story() -> None:
        backend = GatedBackend(open_=False)
        stage = Stage(backend)
        (request,) = stage.send(1)
        await until(lambda: backend.batches != [])
        draining = asyncio.create_task(stage.scheduler.drain())
        await asyncio.sleep(0.02)
        assert not draining.done()
        backend.gate.set()
        await asyncio.wait_for(draining, 10)
        stage.outcomes.response(request)

    run(story())


def test_a_queue_timeout_is_on_time_while_the_instance_is_busy(run):
    async def story() -> None:
        backend = GatedBackend(open_=False)
        stage = Stage(
            backend, batching="default_queue_policy { default_timeout_microseconds: 30000 }"
        )
        stage.send(1)
        await until(lambda: backend.batches != [])
        began = time.monotonic()
        (late,) = stage.send(1)
        await stage.answered(1)
        assert 0.029 <= time.monotonic() - began < 2
        assert stage.outcomes.fault(late).text == "Request timeout expired"
        backend.gate.set()
        await stage.scheduler.drain()

    run(story())


def test_the_queue_delay_is_kept_to_a_fraction_of_a_millisecond(run):
    async def story() -> None:
        stage = Stage(
            identity(),
            place="inline",
            batching="preferred_batch_size: 8 max_queue_delay_microseconds: 3000",
        )
        waits: list[int] = []
        for _ in range(20):
            (request,) = stage.send(1)
            await stage.answered(len(waits) + 1)
            waits.append(request.times.started_ns - request.received_ns)
        assert min(waits) >= 3_000_000
        assert min(waits) < 4_500_000
        await stage.scheduler.drain()

    run(story())


def test_an_unknown_placement_is_refused_with_the_choices(run):
    async def story() -> None:
        with pytest.raises(InvalidArgument, match="must be one of auto, inline, thread, got 'gpu'"):
            Stage(identity(), place="gpu")

    run(story())


def test_passive_instances_get_no_work(run):
    async def story() -> None:
        config = model_config("instance_group { count: 1 kind: KIND_CPU passive: true }")
        scheduler = build_scheduler(
            model_name="batcher",
            version=1,
            config=config,
            instances=[
                type(instance)(spec, instance.backend)
                for spec, instance in zip(
                    config.instances(), loaded(config, identity()), strict=True
                )
            ],
            stats=fresh_stats(config),
        )
        clients = Clients(config)
        request = clients.request(at_ns=time.monotonic_ns())
        scheduler.submit(request)
        await asyncio.sleep(0.01)
        assert scheduler.pending == 1
        await asyncio.wait_for(scheduler.drain(), 10)
        assert clients.outcomes.fault(request).code is FaultCode.UNAVAILABLE

    run(story())


def test_a_cheap_model_moves_to_the_loop_by_itself(run):
    async def story() -> None:
        backend = GatedBackend()
        stage = Stage(backend, place="auto")
        for index in range(200):
            stage.send(1)
            await stage.answered(index + 1)
        assert threading.get_ident() in backend.threads
        await stage.scheduler.drain()

    run(story())


def test_an_answer_may_send_the_next_request(run):
    """A front end reads the next request from a connection when it has written an answer."""

    async def story() -> None:
        stage = Stage(
            identity(), place="inline", batching="default_queue_policy { max_queue_size: 2 }"
        )
        listen = stage.outcomes.done

        def done(request: Any, answer: Any) -> None:
            listen(request, answer)
            if len(stage.outcomes.order) < 200:
                stage.send(2)

        stage.outcomes.done = done  # type: ignore[method-assign]
        stage.send(1)
        await stage.answered(200)
        await until(lambda: stage.scheduler.inflight == 0)
        assert stage.outcomes.repeated == 0
        await stage.scheduler.drain()

    run(story())


class SlowOrBroken:
    """Takes its time for every request but those with a negative value, which fail at once."""

    def __init__(self) -> None:
        self.model = identity()
        self.threads: set[int] = set()

    def execute(self, inputs: Any, outputs: Any) -> Any:
        self.threads.add(threading.get_ident())
        if np.min(inputs[0]) < 0:
            raise Internal("broken")
        time.sleep(0.002)
        return self.model.execute(inputs, outputs)


def test_failures_that_come_at_once_do_not_bring_a_slow_model_to_the_event_loop(run):
    async def story() -> None:
        model = SlowOrBroken()
        stage = Stage(model, place="auto")
        for count in range(1, 41):
            value = -1.0 if count % 2 else float(count)
            stage.scheduler.submit(stage.clients.request(at_ns=time.monotonic_ns(), value=value))
            await stage.answered(count)
        assert threading.get_ident() not in model.threads
        await stage.scheduler.drain()

    run(story())
