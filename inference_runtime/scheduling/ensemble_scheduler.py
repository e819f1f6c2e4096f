"""Runs ensembles: each step as a request of its own to the step's model, one answer (or many) to the client.

Nothing is copied on the way: a step's output is the next step's input as it lies. Event loop only.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from inference_runtime.errors import FailureReason, InvalidArgument, RuntimeFault, Unavailable
from inference_runtime.scheduling import ensemble_backpressure
from inference_runtime.scheduling.ensemble_backpressure import RunBackpressure
from inference_runtime.scheduling.ensemble_flow import (
    EnsembleFlow,
    EnsembleGraph,
    EnsembleView,
    Key,
    Value,
)
from inference_runtime.scheduling.faults import cancelled, stopping
from inference_runtime.scheduling.inflight import Inflight
from inference_runtime.spec.ensemble import LATEST
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.messages import (
    Answer,
    InferRequest,
    InferResponse,
    RequestedOutput,
    RequestHead,
    ResponseHead,
    TensorHead,
)
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import Gauges, VersionStats

logger = logging.getLogger(__name__)

_MAX_HEADS = 1024
_OVERRIDES = ("sequence_id", "sequence_start", "sequence_end")
Overrides = Mapping[str, Any]
_NO_OVERRIDES: Overrides = {}


def _too_slow() -> Unavailable:
    return Unavailable(
        f"more than {ensemble_backpressure.MOST_WAITING} responses of a decoupled step wait for the "
        "steps behind it, which do not keep up"
    )


@dataclass(slots=True, eq=False)
class _Run:
    """One request of the ensemble."""

    request: InferRequest
    flow: EnsembleFlow
    started_ns: int
    compute_ns: int = 0  # of all steps so far
    backpressure: RunBackpressure | None = None  # None: no step answers more than once
    calls: set[InferRequest] = field(default_factory=set)  # steps under way
    ready: deque[tuple[int, Key]] = field(default_factory=deque)
    let_in: deque[tuple[int, Key]] = field(default_factory=deque)  # had their turn at the gate
    gated: int = 0  # steps that wait for their turn at `max_inflight_requests`
    fault: RuntimeFault | None = None
    outputs: InferResponse | None = None
    pumping: bool = False


@dataclass(slots=True, eq=False)
class _Call:
    """Context of a step's request."""

    run: _Run
    step: int
    key: Key
    overrides: Overrides  # of its sequence parameters, by what it was made from
    responses: int = 0

    @property
    def parent(self) -> InferRequest:
        return self.run.request


class EnsembleScheduler:
    def __init__(
        self,
        config: ModelConfig,
        *,
        decoupled: tuple[bool, ...],
        version: int,
        stats: VersionStats,
        inference: InferencePort,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`decoupled`: by step, whether its model may answer more than once."""
        assert config.ensemble is not None
        self._config = config
        self._version = str(version)
        self._steps = config.ensemble.steps
        self._max_inflight = config.ensemble.max_inflight
        self._graph = EnsembleGraph(config.ensemble, decoupled)
        self._views: dict[tuple[int, ...], EnsembleView] = {}
        self._stats = stats
        self._device = stats.device()
        self._inflight = Inflight(stats, decoupled=config.decoupled)
        self._inference = inference
        self._clock = clock
        self._runs: dict[InferRequest, _Run] = {}
        self._active = [0] * len(self._steps)
        self._gates: list[deque[tuple[_Run, Key]]] = [deque() for _ in self._steps]
        self._freed: deque[int] = deque()  # steps with room for one more
        self._releasing = False
        self._request_heads: dict[Hashable, RequestHead] = {}
        self._response_heads: dict[Hashable, ResponseHead] = {}
        self._draining = False
        self._emptied = asyncio.Event()

    @property
    def pending(self) -> int:
        return 0  # a request waits in the queues of its steps

    @property
    def inflight(self) -> int:
        return self._inflight.count

    def gauges(self) -> Gauges:
        return Gauges(inflight=self.inflight)

    def submit(self, request: InferRequest) -> None:
        """Never raises; `request.done` may be called before this returns."""
        if self._draining:
            self._inflight.refuse(request, stopping(request))
            return
        self._inflight.accept(request)
        self._inflight.start((request,))
        run = _Run(request, EnsembleFlow(self._view(request.plan.outputs)), self._clock())
        if self._config.decoupled:
            run.backpressure = RunBackpressure(
                run.flow.view, run.flow, request.backpressure, partial(self._pump, run)
            )
        self._runs[request] = run
        self._put(run, self._given(request), ())
        self._pump(run)

    def cancel(self, request: InferRequest) -> None:
        """No further step begins, and those under way are told; the request ends when they have."""
        self._inflight.abandon(request)
        run = self._runs.get(request)
        if run is not None:
            self._stop(run, cancelled())
            self._pump(run)

    async def drain(self) -> None:
        """Refuses new requests; returns when the last one is settled."""
        self._draining = True
        while self._inflight.count:
            self._emptied.clear()
            await self._emptied.wait()

    # -- data

    def _view(self, outputs: tuple[int, ...]) -> EnsembleView:
        view = self._views.get(outputs)
        if view is None:
            names = [self._config.outputs[index].name for index in outputs]
            if len(self._views) >= _MAX_HEADS:
                self._views = {}
            view = self._views[outputs] = EnsembleView(self._graph, names)
        return view

    def _given(self, request: InferRequest) -> dict[str, Value | None]:
        given: dict[str, Value | None] = {spec.name: None for spec in self._config.inputs}
        for tensor, data in zip(request.head.inputs, request.data, strict=True):
            given[tensor.name] = Value(tensor.datatype, tensor.shape, data)
        return given

    def _put(self, run: _Run, values: Mapping[str, Value | None], key: Key) -> None:
        able, complete = run.flow.put(values, key)
        run.ready.extend(able)
        if run.backpressure is not None:
            for entry in able:
                run.backpressure.ready(*entry)
        for each in complete:
            self._respond(run, each)

    def _respond(self, run: _Run, key: Key) -> None:
        """Every output asked for is there."""
        view = run.flow.view
        heads: list[TensorHead] = []
        data = []
        overrides: dict[str, Any] = {}
        for name in view.outputs:
            value = run.flow.value(name, key)
            if value is None:
                logger.debug("Composing models did not output tensor %s", name)
                continue
            heads.append(TensorHead(name, value.datatype, value.shape))
            data.append(value.data)
            overrides.update(value.overrides or {})
        run.flow.used(view.outputs, key)
        response = InferResponse(self._response_head(heads, overrides), data)
        if self._config.decoupled:
            self._inflight.respond(run.request, response, self._times(run))
        else:
            run.outputs = response

    def _response_head(self, heads: list[TensorHead], overrides: Mapping[str, Any]) -> ResponseHead:
        key = (
            tuple([(head.name, head.shape) for head in heads]),
            tuple(sorted(overrides.items(), key=lambda item: item[0])),
        )
        known = self._response_heads.get(key)
        if known is None:
            if len(self._response_heads) >= _MAX_HEADS:
                self._response_heads = {}
            known = self._response_heads[key] = ResponseHead(
                self._config.name, self._version, tuple(heads), overrides
            )
        return known

    # -- steps

    def _pump(self, run: _Run) -> None:
        """Starts what can be started; steps that end at once come back here, one level deep."""
        if run.pumping:
            return
        run.pumping = True
        while (entry := self._next(run)) is not None:
            index, key = entry
            if self._max_inflight and self._active[index] >= self._max_inflight:
                run.gated += 1
                self._gates[index].append((run, key))
            else:
                self._start(run, index, key)
        run.pumping = False
        if run.backpressure is not None:
            run.backpressure.look()
        if not run.calls and not run.gated:
            self._end(run)

    def _next(self, run: _Run) -> tuple[int, Key] | None:
        if run.fault is not None:
            run.ready.clear()
            run.let_in.clear()
            return None
        if run.let_in:
            return run.let_in.popleft()
        backpressure = run.backpressure
        while run.ready:
            entry = run.ready.popleft()
            if backpressure is None or not backpressure.put_off(*entry):
                return entry
        return backpressure.let_in() if backpressure is not None else None

    def _start(self, run: _Run, index: int, key: Key) -> None:
        self._active[index] += 1
        step = self._steps[index]
        names: list[str] = []
        values: list[Value] = []
        overrides = _NO_OVERRIDES
        for name, tensor in step.inputs.items():
            value = run.flow.value(tensor, key)
            if value is not None:
                names.append(name)
                values.append(value)
                overrides = value.overrides or overrides
        run.flow.used(set(step.inputs.values()), key)
        head = self._head(run, index, names, values, overrides)
        origin = run.request
        request = InferRequest(
            head,
            [value.data for value in values],
            self._done,
            _Call(run, index, key, overrides),
            self._clock(),
            origin.id,
        )
        request.partial = self._partial
        if run.backpressure is not None:
            request.backpressure = run.backpressure.of(index)
        request.deadline_ns = origin.deadline_ns
        request.traffic_unit = origin.traffic_unit
        run.calls.add(request)
        self._inference.infer(request)

    def _head(
        self,
        run: _Run,
        index: int,
        names: list[str],
        values: list[Value],
        overrides: Overrides,
    ) -> RequestHead:
        origin = run.request.head
        asked = run.flow.view.asked[index]
        key = (
            index,
            origin,
            asked,
            tuple([(n, v.shape) for n, v in zip(names, values, strict=True)]),
        )
        known = self._request_heads.get(key) if not overrides else None
        if known is not None:
            return known
        step = self._steps[index]
        head = RequestHead(
            model_name=step.model_name,
            version="" if step.version == LATEST else str(step.version),
            inputs=tuple(
                TensorHead(name, value.datatype, value.shape)
                for name, value in zip(names, values, strict=True)
            ),
            outputs=tuple(RequestedOutput(name) for name in asked),
            parameters=origin.parameters,
            priority=origin.priority,
            timeout_us=origin.timeout_us,
            sequence_id=overrides.get("sequence_id", origin.sequence_id),
            sequence_start=overrides.get("sequence_start", origin.sequence_start),
            sequence_end=overrides.get("sequence_end", origin.sequence_end),
        )
        # What a client chose freely is not kept.
        if not (overrides or origin.parameters or origin.sequence_id):
            if len(self._request_heads) >= _MAX_HEADS:
                self._request_heads = {}
            self._request_heads[key] = head
        return head

    def _partial(self, request: InferRequest, answer: Answer) -> None:
        call: _Call = request.context
        self._accept(call, answer)
        self._pump(call.run)

    def _done(self, request: InferRequest, answer: Answer) -> None:
        call: _Call = request.context
        run = call.run
        run.calls.discard(request)
        if request.times is not None:
            run.compute_ns += request.times.compute_ns
        if run.backpressure is not None:
            run.backpressure.ended(call.step, call.key)
        self._accept(call, answer)
        self._leave(call.step)
        self._pump(run)

    def _accept(self, call: _Call, answer: Answer) -> None:
        run = call.run
        if not isinstance(answer, InferResponse):
            self._fail(run, self._in_ensemble(answer))
        elif not answer.head.empty and run.fault is None:
            key = call.key
            if self._graph.decoupled[call.step]:
                key = (*key, call.responses)
                call.responses += 1
                if run.backpressure is not None and run.backpressure.too_many(call.step):
                    self._stop(run, self._in_ensemble(_too_slow()))
                    return
            self._put(run, self._produced(call, answer), key)

    def _produced(self, call: _Call, answer: InferResponse) -> dict[str, Value | None]:
        head = answer.head
        overrides = call.overrides
        if head.parameters and any(key in head.parameters for key in _OVERRIDES):
            overrides = self._overrides(call, head.parameters)
        given = {
            output.name: Value(output.datatype, output.shape, data, overrides or None)
            for output, data in zip(head.outputs, answer.data, strict=True)
        }
        outputs = self._steps[call.step].outputs
        return {outputs[name]: given.get(name) for name in call.run.flow.view.asked[call.step]}

    def _overrides(self, call: _Call, parameters: Mapping[str, Any]) -> Overrides:
        """All three, for those who use the answer: a flag that it does not set is off, the id stays the step's own."""
        id_ = call.overrides.get("sequence_id", call.parent.head.sequence_id)
        return {
            "sequence_id": parameters.get("sequence_id", id_),
            "sequence_start": parameters.get("sequence_start", False),
            "sequence_end": parameters.get("sequence_end", False),
        }

    def _leave(self, index: int) -> None:
        """A request of the step has ended: those that wait for that may begin."""
        self._active[index] -= 1
        if not self._gates[index]:
            return
        self._freed.append(index)
        if self._releasing:
            return  # one level deep: those let in may end at once, and hundreds may wait
        self._releasing = True
        try:
            while self._freed:
                self._let_in(self._freed.popleft())
        finally:
            self._releasing = False

    def _let_in(self, index: int) -> None:
        # The gate is looked up each time: a request that fails takes what it had there with it.
        while self._gates[index] and self._active[index] < self._max_inflight:
            run, key = self._gates[index].popleft()
            run.gated -= 1
            if run.fault is None:
                run.let_in.append((index, key))
            self._pump(run)

    # -- ends

    def _stop(self, run: _Run, fault: RuntimeFault) -> None:
        """Fails the request, and tells the steps under way that nobody waits for them any more."""
        self._fail(run, fault)
        for call in list(run.calls):
            self._inference.cancel(call)

    def _fail(self, run: _Run, fault: RuntimeFault) -> None:
        if run.fault is not None:
            return
        run.fault = fault
        if run.backpressure is not None:
            run.backpressure.leave()
        if run.gated:
            run.gated = 0
            for index, gate in enumerate(self._gates):
                self._gates[index] = deque(entry for entry in gate if entry[0] is not run)

    def _in_ensemble(self, fault: RuntimeFault) -> RuntimeFault:
        told = RuntimeFault(
            f"in ensemble '{self._config.name}', {fault.text}", reason=FailureReason.OTHER
        )
        told.code = fault.code
        return told

    def _end(self, run: _Run) -> None:
        request = run.request
        if self._runs.pop(request, None) is None:
            return
        if run.backpressure is not None:
            run.backpressure.leave()
        times = self._times(run)
        answer: Answer
        if run.fault is not None:
            answer = run.fault
        elif self._config.decoupled:
            answer = InferResponse(
                ResponseHead(self._config.name, self._version, (), empty=True), ()
            )
        elif run.outputs is not None:
            answer = run.outputs
        else:
            answer = self._in_ensemble(
                InvalidArgument(
                    f"[request id: {request.id or '<id_unknown>'}] unexpected deadlock, at least "
                    "one output is not set while no more ensemble steps can be made"
                )
            )
        if run.fault is None:
            self._stats.executed(self._device, times, request.plan.batch_size, request)
        self._inflight.finish(request, answer, self._device, times, self._clock())
        if self._draining and self._inflight.count == 0:
            self._emptied.set()

    def _times(self, run: _Run) -> ExecutionTimes:
        """The steps' compute times are the ensemble's time of inference."""
        began_ns = run.started_ns
        ended_ns = began_ns + run.compute_ns
        return ExecutionTimes(began_ns, began_ns, ended_ns, ended_ns)
