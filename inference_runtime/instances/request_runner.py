"""An execution by a backend that answers request by request: no join, no split, answers now or later."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace

from inference_runtime.backends.base import RequestBackend
from inference_runtime.backends.model_call import (
    RESCHEDULE,
    CallPace,
    ModelCall,
    Outputs,
    Reply,
    Reschedule,
    WireTensor,
)
from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault
from inference_runtime.instances.batch import Batch, Execution
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import (
    Answer,
    InferRequest,
    InferResponse,
    ResponseHead,
    TensorHead,
)
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.spec.tensors import backend_shape, client_shape
from inference_runtime.telemetry.durations import ExecutionTimes

logger = logging.getLogger(__name__)

MAX_HEADS = 1024
_NOT_ITERATIVE = (
    "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not "
    "configured to handle such a flag."
)
# (request, answer, whether it is the last, moments of the execution so far), on the event loop.
Deliver = Callable[[InferRequest, Answer, bool, ExecutionTimes], None]


def _nowhere(request: InferRequest, answer: Answer, final: bool, times: ExecutionTimes) -> None:
    raise RuntimeError("an answer came before its scheduler")


class RequestRunner:
    """One per instance. `deliver`, set before the first batch, gets what comes through `call.send`."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        model_name: str,
        version: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._config = config
        self._model_name = model_name
        self._version = str(version)
        self.deliver: Deliver = _nowhere
        self._loop = loop
        self._clock = time.monotonic_ns
        self._ending = threading.Lock()
        self._heads: dict[Hashable, ResponseHead] = {}
        sequences = config.sequence_batching
        self._reschedules = sequences is not None and sequences.iterative
        self._nothing = InferResponse(ResponseHead(model_name, self._version, (), empty=True), ())

    def run(self, backend: RequestBackend, batch: Batch) -> Execution:
        clock = self._clock
        started_ns = clock()
        gathered_ns = 0
        try:
            calls = self._calls(batch)
            gathered_ns = clock()
            for call in calls:
                call.started_ns, call.gathered_ns = started_ns, gathered_ns
            replies = backend.execute_requests(calls)
            inferred_ns = clock()
            again = [c.request for c, r in zip(calls, replies, strict=True) if r is RESCHEDULE]
            answers = self._chosen(
                batch, [self._reply(*pair) for pair in zip(calls, replies, strict=True)]
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001  a model's exception is its batch's answer
            now_ns = clock()
            return self.failed(
                batch,
                error,
                ExecutionTimes(started_ns, gathered_ns or now_ns, now_ns, now_ns),
            )
        times = ExecutionTimes(started_ns, gathered_ns, inferred_ns, clock())
        return Execution(
            batch,
            answers,
            times,
            faulty=any(isinstance(answer, RuntimeFault) for answer in answers),
            deferred=any(answer is None for answer in answers),
            rescheduled=again if self._reschedules else (),
        )

    def failed(
        self, batch: Batch, error: BaseException, times: ExecutionTimes | None = None
    ) -> Execution:
        """The same fault for every request that has not had its last answer."""
        if isinstance(error, RuntimeFault):
            fault: RuntimeFault = error
        else:
            logger.error("executing %s:%s failed", self._model_name, self._version, exc_info=error)
            fault = Internal(f"{type(error).__name__}: {error}")
        if times is None:
            now_ns = self._clock()
            times = ExecutionTimes(now_ns, now_ns, now_ns, now_ns)
        return Execution(batch, [fault] * len(batch.requests), times, faulty=True, deferred=True)

    def _calls(self, batch: Batch) -> list[ModelCall]:
        return [self._call(request) for request in batch.requests]

    def _chosen(self, batch: Batch, answers: list[Answer | None]) -> list[Answer | None]:
        """Those for `batch.requests`, of one answer per call."""
        return answers

    def _call(self, request: InferRequest) -> ModelCall:
        plan: RequestPlan = request.plan
        config = self._config
        inputs = [
            WireTensor(
                spec.name,
                spec.datatype,
                backend_shape(spec, shape, batching=config.batching),
                request.data[source],
            )
            for spec, source, shape in zip(config.inputs, plan.sources, plan.shapes, strict=True)
            if source >= 0
        ]
        call = ModelCall(request, inputs, plan.output_names, self._send)
        if request.backpressure is not None:
            call.pace = CallPace(request.backpressure, self._loop)
        return call

    def _reply(self, call: ModelCall, reply: Reply | Reschedule | None) -> Answer | None:
        if reply is None or not self._end(call):
            return None
        if isinstance(reply, Reschedule):
            return None if self._reschedules else InvalidArgument(_NOT_ITERATIVE)
        return self._answer(call, reply)

    def _end(self, call: ModelCall) -> bool:
        """Whether it had not ended before; a process may be found dead just after it gave its answers."""
        with self._ending:
            ended, call.ended = call.ended, True
        return not ended

    def _send(self, call: ModelCall, reply: Reply | None, final: bool) -> None:
        if call.ended or (final and not self._end(call)):
            return
        if reply is None:
            if not final:
                return
            answer: Answer = self._nothing
        else:
            answer = self._answer(call, reply)
        now_ns = self._clock()
        times = ExecutionTimes(call.started_ns, call.gathered_ns, now_ns, now_ns)
        with suppress(RuntimeError):  # the loop has closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self.deliver, call.request, answer, final, times)

    def _answer(self, call: ModelCall, reply: Reply) -> Answer:
        if isinstance(reply, RuntimeFault):
            return reply
        try:
            outputs = self._asked_for(call, reply)
            head = self._head(outputs)
            if isinstance(reply, Outputs):
                head = replace(head, parameters=reply.parameters)
            return InferResponse(head, [tensor.data for tensor in outputs])
        except RuntimeFault as fault:
            return fault

    def _asked_for(self, call: ModelCall, outputs: Sequence[WireTensor]) -> list[WireTensor]:
        """In the config's order. An output the model left out is left out of the answer."""
        given = {tensor.name: tensor for tensor in outputs}
        for tensor in outputs:
            index = self._config.output_index.get(tensor.name)
            if index is None:
                continue  # a model may produce more than its config shows to clients
            expected = self._config.outputs[index].datatype
            if tensor.datatype != expected:
                raise Internal(
                    f"output '{tensor.name}' of model '{self._model_name}' has data-type "
                    f"{tensor.datatype}, but the config says {expected}"
                )
        return [given[name] for name in call.outputs if name in given]

    def _head(self, outputs: Sequence[WireTensor]) -> ResponseHead:
        key = tuple([(tensor.name, tensor.shape) for tensor in outputs])
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= MAX_HEADS:
                self._heads = {}
            heads = []
            for tensor in outputs:
                spec = self._config.outputs[self._config.output_index[tensor.name]]
                shape = client_shape(spec, tensor.shape, batching=self._config.batching)
                heads.append(TensorHead(tensor.name, BY_WIRE[tensor.datatype].wire, shape))
            head = self._heads[key] = ResponseHead(self._model_name, self._version, tuple(heads))
        return head
