"""Executions by a backend that answers request by request: each request has one end, whoever tells it first."""

from collections.abc import Sequence
from typing import Any

from inference_runtime.backends.model_call import ModelCall, WireTensor
from inference_runtime.errors import Internal
from inference_runtime.instances.batch import Batch
from inference_runtime.instances.request_runner import RequestRunner
from inference_runtime.spec.messages import InferResponse
from tests.inference_runtime.scheduling.stage import Clients, model_config


class Echo:
    """Answers with its inputs; before that it does what the test wants."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []
        self.before: Any = lambda call: None

    def execute_requests(self, calls: Sequence[ModelCall]) -> list[list[WireTensor]]:
        self.calls += calls
        for call in calls:
            self.before(call)
        return [
            [
                WireTensor(t.name.replace("IN", "OUT"), t.datatype, t.shape, t.data)
                for t in call.inputs
            ]
            for call in calls
        ]

    def load(self, artifact: Any, config: Any, instance: Any) -> None:
        """There is nothing to load."""

    def unload(self) -> None:
        """Nor to unload."""


class PretendLoop:
    def __init__(self) -> None:
        self.delivered: list[Any] = []

    def call_soon_threadsafe(self, callback: Any, *arguments: Any) -> None:
        self.delivered.append(arguments)


class Bench:
    def __init__(self) -> None:
        self.config = model_config()
        self.loop = PretendLoop()
        self.backend = Echo()
        self.runner = RequestRunner(
            self.config,
            model_name="batcher",
            version=1,
            loop=self.loop,  # type: ignore[arg-type]
        )

    def run(self) -> Any:
        requests = [Clients(self.config).request(value=float(value)) for value in range(2)]
        return self.runner.run(self.backend, Batch(requests, 2))


def test_a_call_that_was_answered_by_its_execution_has_no_second_end():
    bench = Bench()
    execution = bench.run()
    assert not execution.deferred
    # A process that dies right after its answers: what it had open is ended by whoever notices.
    for call in bench.backend.calls:
        call.send(Internal("the process died"), final=True)
    assert bench.loop.delivered == []


def test_a_call_that_ended_before_its_execution_did_is_not_answered_by_it():
    bench = Bench()
    fault = Internal("the process died")
    bench.backend.before = lambda call: call.send(fault, final=True)
    execution = bench.run()
    assert execution.deferred
    assert execution.answers == [None, None]
    assert [(answer, final) for _, answer, final, _ in bench.loop.delivered] == [(fault, True)] * 2


def test_responses_after_the_end_are_dropped_and_those_before_are_not():
    bench = Bench()
    bench.backend.before = lambda call: call.send([], final=False)
    execution = bench.run()
    assert all(isinstance(answer, InferResponse) for answer in execution.answers)
    assert [final for _, _, final, _ in bench.loop.delivered] == [False, False]
    bench.backend.calls[0].send([], final=False)
    assert len(bench.loop.delivered) == 2
