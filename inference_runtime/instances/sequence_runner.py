"""Executions of models with sequences: as the others, with injected inputs, kept state and filler rows."""

import asyncio
from collections.abc import Sequence
from typing import cast

from inference_runtime.backends.base import Array, Backend
from inference_runtime.backends.model_call import ModelCall, WireTensor
from inference_runtime.instances.batch import Batch
from inference_runtime.instances.injected_inputs import InjectedInputs
from inference_runtime.instances.request_runner import RequestRunner
from inference_runtime.instances.runner import BatchRunner
from inference_runtime.instances.sequence_batch import SequenceBatch
from inference_runtime.spec.messages import Answer, InferResponse
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.sequence_config import SequenceBatching
from inference_runtime.spec.tensors import to_wire


class SequenceBatchRunner(BatchRunner):
    def __init__(
        self, config: ModelConfig, sequences: SequenceBatching, *, model_name: str, version: int
    ) -> None:
        super().__init__(config, model_name=model_name, version=version)
        self._injected = InjectedInputs(config, sequences)

    def _gather(self, batch: Batch) -> list[Array | None]:
        batch = cast(SequenceBatch, batch)
        return [*super()._gather(batch.all_rows), *self._injected.arrays(batch)]

    def _wanted(self, batch: Batch) -> tuple[tuple[int, ...], tuple[str, ...]]:
        indexes, names = super()._wanted(batch)
        return indexes, names + tuple(n for n in self._injected.state_outputs if n not in names)

    def _scatter(
        self, batch: Batch, indexes: tuple[int, ...], outputs: Sequence[Array]
    ) -> list[InferResponse]:
        batch = cast(SequenceBatch, batch)
        answers = super()._scatter(batch.all_rows, indexes, outputs[: len(indexes)])
        if self._injected.state_outputs:
            _, names = self._wanted(batch)
            self._injected.keep(batch, dict(zip(names, outputs, strict=True)))
        return [answers[place] for place in batch.places]

    def _each_alone(self, backend: Backend, batch: Batch) -> list[Answer | None]:
        batch = cast(SequenceBatch, batch)
        answers: list[Answer | None] = []
        for request, state in zip(batch.requests, batch.states, strict=True):
            alone = SequenceBatch([request], (0,), [state])
            answers += self.run(backend, alone).answers
        return answers


class SequenceRequestRunner(RequestRunner):
    def __init__(
        self,
        config: ModelConfig,
        sequences: SequenceBatching,
        *,
        model_name: str,
        version: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config, model_name=model_name, version=version, loop=loop)
        self._injected = InjectedInputs(config, sequences)

    def _calls(self, batch: Batch) -> list[ModelCall]:
        batch = cast(SequenceBatch, batch)
        calls = super()._calls(batch.all_rows)
        for place, state in zip(batch.places, batch.states, strict=True):
            calls[place].home = state.home
        specs = self._config.injected_inputs
        for spec, array in zip(specs, self._injected.controls(batch), strict=True):
            shape = array.shape if not self._config.batching else (1, 1)
            for place, call in enumerate(calls):
                value = to_wire(spec.datatype, array[place : place + 1])
                call.inputs = (*call.inputs, WireTensor(spec.name, spec.datatype, shape, value))
        return calls

    def _chosen(self, batch: Batch, answers: list[Answer | None]) -> list[Answer | None]:
        return [answers[place] for place in cast(SequenceBatch, batch).places]
