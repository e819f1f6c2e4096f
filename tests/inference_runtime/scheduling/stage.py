"""The small world of the scheduler tests: one model, requests for it, and what became of them."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from inference_runtime.backends.base import LoadedInstance
from inference_runtime.errors import Internal, RuntimeFault
from inference_runtime.routing.validation import plan_request
from inference_runtime.spec.config_defaults import fill_instance_groups, fill_scheduling
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.messages import (
    Answer,
    InferRequest,
    InferResponse,
    RequestedOutput,
    RequestHead,
    TensorHead,
)
from inference_runtime.spec.model_config import InstanceSpec, ModelConfig, read
from inference_runtime.telemetry.registry import StatsRegistry
from inference_runtime.telemetry.stats import VersionStats

# `batcher` of the protocol's checklist: two inputs of free length, echoed.
BATCHER = """
name: "batcher" backend: "identity" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
input { name: "INPUT1" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT1" data_type: TYPE_FP32 dims: -1 }
"""


def model_config(text: str = "", base: str = BATCHER) -> ModelConfig:
    proto = config_from_text(base + text)
    fill_scheduling(proto)
    fill_instance_groups(proto, ())
    return read(proto)


def fresh_stats(config: ModelConfig) -> VersionStats:
    registry = StatsRegistry()
    stats = registry.prepare(model=config.name, version=1, config=config)
    registry.publish(stats)
    return stats


class Outcomes:
    """Remembers every answer in the order it came; each request may have one only."""

    def __init__(self) -> None:
        self.order: list[InferRequest] = []
        self.answers: dict[InferRequest, Answer] = {}
        self.repeated = 0

    def done(self, request: InferRequest, answer: Answer) -> None:
        self.repeated += request in self.answers
        self.answers[request] = answer
        self.order.append(request)

    def fault(self, request: InferRequest) -> RuntimeFault:
        answer = self.answers[request]
        assert isinstance(answer, RuntimeFault)
        return answer

    def response(self, request: InferRequest) -> InferResponse:
        answer = self.answers[request]
        assert isinstance(answer, InferResponse), answer
        return answer

    def succeeded(self) -> list[InferRequest]:
        return [r for r in self.order if isinstance(self.answers[r], InferResponse)]


class Clients:
    """Makes requests for a model; `value` fills their tensors, so that answers can be told apart."""

    def __init__(self, config: ModelConfig, outcomes: Outcomes | None = None) -> None:
        self.config = config
        self.outcomes = outcomes or Outcomes()
        self._heads: dict[Any, RequestHead] = {}

    def request(
        self,
        rows: int = 1,
        *,
        length: int = 4,
        at_ns: int = 0,
        value: float = 0.0,
        outputs: Sequence[str] = (),
        priority: int = 0,
        timeout_us: int = 0,
        id_: str = "",
    ) -> InferRequest:
        key = (rows, length, tuple(outputs), priority, timeout_us)
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._head(rows, length, outputs, priority, timeout_us)
        request = InferRequest(
            head,
            [np.full((rows, length), value + i, "<f4").tobytes() for i in range(len(head.inputs))],
            self.outcomes.done,
            None,
            at_ns,
            id_,
        )
        request.plan = plan_request(head, self.config, id_)
        return request

    def only_input(self, index: int) -> InferRequest:
        """A request that leaves out every other (optional) input."""
        spec = self.config.inputs[index]
        head = RequestHead(self.config.name, "", (TensorHead(spec.name, spec.datatype, (1, 4)),))
        request = InferRequest(head, [bytes(16)], self.outcomes.done, None, 0)
        request.plan = plan_request(head, self.config, "")
        return request

    def _head(
        self, rows: int, length: int, outputs: Sequence[str], priority: int, timeout_us: int
    ) -> RequestHead:
        shape = (rows, length) if self.config.batching else (length,)
        return RequestHead(
            self.config.name,
            "",
            tuple(TensorHead(spec.name, spec.datatype, shape) for spec in self.config.inputs),
            tuple(RequestedOutput(name) for name in outputs),
            priority=priority,
            timeout_us=timeout_us,
        )


class GatedBackend:
    """Echoes, once the test lets it; can be told to fail."""

    def __init__(self, *, open_: bool = True) -> None:
        self.gate = threading.Event()
        if open_:
            self.gate.set()
        self.failure: BaseException | None = None
        self.batches: list[int] = []
        self.threads: set[int] = set()

    def load(self, *_: Any) -> None: ...

    def execute(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
        self.batches.append(len(inputs[0]))
        self.threads.add(threading.get_ident())
        if not self.gate.wait(30):
            raise Internal("the test never opened the gate")
        if self.failure is not None:
            raise self.failure
        return [inputs[int(name.removeprefix("OUTPUT"))] for name in outputs]

    def unload(self) -> None: ...


def loaded(config: ModelConfig, *backends: Any) -> list[LoadedInstance]:
    """The config's first instances, one for each backend."""
    spec = next(config.instances())
    return [
        LoadedInstance(InstanceSpec(f"{config.name}_{index}", spec.kind, spec.device), backend)
        for index, backend in enumerate(backends)
    ]
