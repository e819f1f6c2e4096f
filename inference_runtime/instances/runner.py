"""One execution from end to end: gather, execute, scatter, with the time each took. No exception of a model gets out."""

import logging
import time
from collections.abc import Callable, Sequence

from inference_runtime.backends.base import Array, Backend
from inference_runtime.backends.request_fault import RequestFault
from inference_runtime.errors import Internal, RuntimeFault
from inference_runtime.instances.batch import Batch, Execution
from inference_runtime.instances.gather import Gatherer
from inference_runtime.instances.ragged import RaggedGatherer, RaggedScatterer, is_ragged
from inference_runtime.instances.scatter import Scatterer
from inference_runtime.spec.messages import Answer, InferResponse
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.telemetry.durations import ExecutionTimes

logger = logging.getLogger(__name__)


class BatchRunner:
    """Shared by all instances of a version: it holds nothing of a batch between two calls."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        model_name: str,
        version: int,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.config = config
        self.model_name = model_name
        self.version = version
        self._label = f"{model_name}:{version}"
        self._clock = clock
        ragged = is_ragged(config)
        self._gatherer = RaggedGatherer(config) if ragged else Gatherer(config)
        scatterer = RaggedScatterer if ragged else Scatterer
        self._scatterer = scatterer(config, model_name=model_name, version=version)

    def run(self, backend: Backend, batch: Batch) -> Execution:
        clock = self._clock
        gathered_ns = inferred_ns = 0
        started_ns = clock()
        try:
            arrays = self._gather(batch)
            indexes, names = self._wanted(batch)
            gathered_ns = clock()
            outputs = backend.execute(arrays, names)
            inferred_ns = clock()
            answers = self._scatter(batch, indexes, outputs)
        except RequestFault as fault:
            finished_ns = clock()
            times = ExecutionTimes(started_ns, gathered_ns, finished_ns, finished_ns)
            if len(batch.requests) == 1:
                return self.failed(batch, fault, times)
            return Execution(batch, self._each_alone(backend, batch), times, faulty=True)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a model's exception is its batch's answer
            finished_ns = clock()
            times = ExecutionTimes(
                started_ns,
                gathered_ns or finished_ns,
                inferred_ns or finished_ns,
                finished_ns,
            )
            return self.failed(batch, error, times)
        times = ExecutionTimes(started_ns, gathered_ns, inferred_ns, clock())
        return Execution(batch, answers, times, faulty=False)

    def _each_alone(self, backend: Backend, batch: Batch) -> list[Answer | None]:
        """The answers of a batch whose fault is that of some of its requests only."""
        answers: list[Answer | None] = []
        for request in batch.requests:
            alone = Batch([request], request.plan.batch_size)
            answers += self.run(backend, alone).answers
        return answers

    def _gather(self, batch: Batch) -> list[Array | None]:
        return self._gatherer.gather(batch)

    def _wanted(self, batch: Batch) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Indexes of the config's outputs that the batch asks for, and the names to ask the backend for."""
        return self._scatterer.wanted(batch)

    def _scatter(
        self, batch: Batch, indexes: tuple[int, ...], outputs: Sequence[Array]
    ) -> list[InferResponse]:
        return self._scatterer.scatter(batch, indexes, outputs)

    def failed(
        self, batch: Batch, error: BaseException, times: ExecutionTimes | None = None
    ) -> Execution:
        """The same fault for every request; without `times` the execution ended where it began."""
        fault = self._fault(error)
        if times is None:
            now_ns = self._clock()
            times = ExecutionTimes(now_ns, now_ns, now_ns, now_ns)
        return Execution(batch, [fault] * len(batch.requests), times, faulty=True)

    def _fault(self, error: BaseException) -> RuntimeFault:
        if isinstance(error, RuntimeFault):
            return error
        logger.error("executing %s failed", self._label, exc_info=error)
        return Internal(f"{type(error).__name__}: {error}")
