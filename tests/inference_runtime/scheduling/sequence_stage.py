"""A real sequence scheduler with real runners over pretend time, and a model that adds up."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.instances.execution_placement import ExecutionPlace, ExecutionPlacement
from inference_runtime.instances.instance_group import InstanceGroup
from inference_runtime.instances.sequence_batch import SequenceBatch
from inference_runtime.instances.sequence_runner import SequenceBatchRunner
from inference_runtime.routing.validation import plan_request
from inference_runtime.scheduling.hold import NO_HOLD, Hold
from inference_runtime.scheduling.inflight import Inflight
from inference_runtime.scheduling.sequence_batcher import batcher_for, slots_for
from inference_runtime.scheduling.sequence_lanes import Lane
from inference_runtime.scheduling.sequence_scheduler import SequenceParts, SequenceScheduler
from inference_runtime.spec.config_defaults import fill_instance_groups
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.messages import InferRequest, RequestHead, TensorHead
from inference_runtime.spec.model_config import ModelConfig, read
from inference_runtime.spec.sequence_rules import check_sequence_batching, fill_sequence_batching
from inference_runtime.telemetry.stats import DeviceStats
from tests.inference_runtime.scheduling.stage import Outcomes, fresh_stats
from tests.inference_runtime.scheduling.virtual_time import MS, VirtualLoop
from tests.sequence_models import accumulator_config


def sequence_config(strategy: str = "direct { }", **more: Any) -> ModelConfig:
    text = 'name: "seq" backend: "onnxruntime"' + accumulator_config(strategy, **more)
    proto = config_from_text(text)
    fill_sequence_batching(proto)
    fill_instance_groups(proto, ())
    check_sequence_batching(proto)
    return read(proto)


class Accumulator:
    """OUTPUT0 = SUM_OUT = SUM_IN + INPUT0; FLAGS and ID say what the controls said. A backend."""

    def __init__(self, config: ModelConfig) -> None:
        self._names = [spec.name for spec in config.backend_inputs]
        self.calls: list[dict[str, list[Any]]] = []  # values by input, one per row
        self.failing: set[int] = set()  # values of INPUT0 at which an execution fails

    def execute(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
        given = dict(zip(self._names, inputs, strict=True))
        self.calls.append({name: array.ravel().tolist() for name, array in given.items()})
        ready = given["READY"].ravel() != 0
        if self.failing & set(given["INPUT0"].ravel()[ready].tolist()):
            raise Internal("the model failed")
        total = given["SUM_IN"] + given["INPUT0"]
        flags = given["START"] + 2 * given["READY"] + 4 * given["END"]
        made = {"OUTPUT0": total, "SUM_OUT": total, "FLAGS": flags, "ID": given["CORRID"]}
        return [made[name] for name in outputs]


class PretendWorker:
    """Executes at once and is done `duration_ns` of pretend time later."""

    can_die = False

    def __init__(self, loop: VirtualLoop, device: DeviceStats, runner: Any, backend: Any) -> None:
        self.name = "pretend"
        self.loop = loop
        self.device = device
        self.duration_ns = MS
        self.backend = backend
        self.executed: list[list[InferRequest]] = []
        self.failed: set[InferRequest] = set()  # their execution did
        self._runner = runner

    def run_in_thread(self, batch: Any, finished: Any) -> None:
        assert isinstance(batch, SequenceBatch)
        self.executed.append(list(batch.requests))
        execution = self._runner.run(self.backend, batch)
        if execution.faulty:
            self.failed.update(batch.requests)
        self.loop.call_later(self.duration_ns / 1e9, finished, self, execution)

    def process_number(self) -> int:
        number: int = self.backend.process_number
        return number

    async def stop(self) -> None: ...


class SequenceStage:
    def __init__(
        self,
        config: ModelConfig,
        *,
        instances: int = 1,
        backend: Any = None,
        runner: Any = None,
        loop: VirtualLoop | None = None,
        hold: Hold = NO_HOLD,
        mortal: bool = False,
    ) -> None:
        """`mortal`: the backends execute in processes, and say in which (`process_number`)."""
        assert config.sequence_batching is not None
        self.config = config
        self.loop = loop or VirtualLoop()
        self.stats = fresh_stats(config)
        self.outcomes = Outcomes()
        sequences = config.sequence_batching
        runner = runner or SequenceBatchRunner(config, sequences, model_name="seq", version=1)
        runner._clock = self.loop.clock
        self.workers = [
            PretendWorker(self.loop, self.stats.device(), runner, backend or Accumulator(config))
            for _ in range(instances)
        ]
        self.scheduler = SequenceScheduler(
            SequenceParts(
                model="seq",
                sequences=sequences,
                lanes=[
                    Lane(
                        InstanceGroup([worker]),  # type: ignore[list-item]
                        batcher_for(sequences, config.max_batch_size),
                        worker.process_number if mortal else None,
                    )
                    for worker in self.workers
                ],
                slots_per_lane=slots_for(sequences, config.max_batch_size),
                placement=ExecutionPlacement(ExecutionPlace.THREAD),
                inflight=Inflight(self.stats),
                hold=hold,
            ),
            loop=self.loop,  # type: ignore[arg-type]
            clock=self.loop.clock,
        )

    @property
    def calls(self) -> list[dict[str, list[Any]]]:
        return [call for worker in self.workers for call in worker.backend.calls]

    def send(
        self,
        id_: int | str,
        value: int = 1,
        flags: str = "",
        *,
        timeout_us: int = 0,
        deadline_ns: int = 0,
        rows: int = 1,
    ) -> InferRequest:
        """`flags`: "s" for START, "e" for END."""
        shape = (rows, 1) if self.config.batching else (1,)
        head = RequestHead(
            "seq",
            "",
            (TensorHead("INPUT0", "INT32", shape),),
            sequence_id=id_,
            sequence_start="s" in flags,
            sequence_end="e" in flags,
            timeout_us=timeout_us,
        )
        data = np.full(rows, value, "<i4").tobytes()
        request = InferRequest(head, [data], self.outcomes.done, None, self.loop.now_ns)
        request.plan = plan_request(head, self.config, "")
        request.deadline_ns = self.loop.now_ns + deadline_ns if deadline_ns else 0
        self.scheduler.submit(request)
        return request

    def sums(self, *requests: InferRequest) -> list[int | str]:
        """OUTPUT0 of each; the text of a fault; or "waits"."""
        found: list[int | str] = []
        for request in requests:
            answer = self.outcomes.answers.get(request)
            if answer is None:
                found.append("waits")
            elif isinstance(answer, RuntimeFault):
                found.append(answer.text)
            else:
                found.append(int(np.frombuffer(answer.data[0], "<i4")[0]))
        return found

    def output(self, request: InferRequest, name: str) -> bytes:
        answer = self.outcomes.response(request)
        names = [head.name for head in answer.head.outputs]
        return bytes(answer.data[names.index(name)])

    def batch_stats(self) -> dict[int, int]:
        sizes = self.stats.device().batch_sizes
        return {rows: size.executions for rows, size in sizes.items()}


def is_client_fault(stage: SequenceStage, request: InferRequest, text: str) -> bool:
    fault = stage.outcomes.fault(request)
    return isinstance(fault, InvalidArgument) and text in fault.text
