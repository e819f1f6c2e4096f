"""Runs ensembles: each step as a request of its own to the step's model, one answer (or many) to the client.

Nothing is copied on the way: a step's output is the next step's input as it lies. Event loop only.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from inference_runtime.errors import FailureReason, RuntimeFault
from inference_runtime.scheduling import ensemble_backpressure
from inference_runtime.scheduling.ensemble_backpressure import RunBackpressure
from inference_runtime.scheduling.ensemble_flow import (
    EnsembleFlow,
    EnsembleGraph,
    EnsembleView,
    Key,
    Value,
)
from inference_runtime.scheduling.ensemble_gates import EnsembleGates
from inference_runtime.scheduling.ensemble_heads import EnsembleHeads, overrides_by
from inference_runtime.scheduling.ensemble_run import Call, Overrides, Run
from inference_runtime.scheduling.faults import cancelled, deadlock, stopping, too_slow
from inference_runtime.scheduling.inflight import Inflight
from inference_runtime.spec.inference_port import InferencePort
from inference_runtime.spec.messages import Answer, InferRequest, InferResponse, TensorHead
from inference_runtime.spec.model_config import ModelConfig
from inference_runtime.telemetry.durations import ExecutionTimes
from inference_runtime.telemetry.stats import Gauges, VersionStats

logger = logging.getLogger(__name__)

_MAX_VIEWS = 1024
_NO_OVERRIDES: Overrides = {}


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
        self._heads = EnsembleHeads(config.name, str(version), config.ensemble.steps)
        self._steps = config.ensemble.steps
        self._graph = EnsembleGraph(config.ensemble, decoupled)
        self._views: dict[tuple[int, ...], EnsembleView] = {}
        self._stats = stats
        self._device = stats.device()
        self._inflight = Inflight(stats, decoupled=config.decoupled)
        self._inference = inference
        self._clock = clock
        self._runs: dict[InferRequest, Run] = {}
        self._gates = EnsembleGates(len(self._steps), config.ensemble.max_inflight, self._pump)
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
        run = Run(request, EnsembleFlow(self._view(request.plan.outputs)), self._clock())
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
            if len(self._views) >= _MAX_VIEWS:
                self._views = {}
            view = self._views[outputs] = EnsembleView(self._graph, names)
        return view

    def _given(self, request: InferRequest) -> dict[str, Value | None]:
        given: dict[str, Value | None] = {spec.name: None for spec in self._config.inputs}
        for tensor, data in zip(request.head.inputs, request.data, strict=True):
            given[tensor.name] = Value(tensor.datatype, tensor.shape, data)
        return given

    def _put(self, run: Run, values: Mapping[str, Value | None], key: Key) -> None:
        able, complete = run.flow.put(values, key)
        run.ready.extend(able)
        if run.backpressure is not None:
            for entry in able:
                run.backpressure.ready(*entry)
        for each in complete:
            self._respond(run, each)

    def _respond(self, run: Run, key: Key) -> None:
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
        response = InferResponse(self._heads.answer(heads, overrides), data)
        if self._config.decoupled:
            self._inflight.respond(run.request, response, self._times(run))
        else:
            run.outputs = response

    # -- steps

    def _pump(self, run: Run) -> None:
        """Starts what can be started; steps that end at once come back here, one level deep."""
        if run.pumping:
            return
        run.pumping = True
        while (entry := run.next()) is not None:
            if self._gates.enter(run, *entry):
                self._start(run, *entry)
        run.pumping = False
        if run.backpressure is not None:
            run.backpressure.look()
        if not run.calls and not run.gated:
            self._end(run)

    def _start(self, run: Run, index: int, key: Key) -> None:
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
        origin = run.request
        asked = run.flow.view.asked[index]
        head = self._heads.request(index, origin.head, asked, (names, values), overrides)
        request = InferRequest(
            head,
            [value.data for value in values],
            self._done,
            Call(run, index, key, overrides),
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

    def _partial(self, request: InferRequest, answer: Answer) -> None:
        call: Call = request.context
        self._accept(call, answer)
        self._pump(call.run)

    def _done(self, request: InferRequest, answer: Answer) -> None:
        call: Call = request.context
        run = call.run
        run.calls.discard(request)
        if request.times is not None:
            run.compute_ns += request.times.compute_ns
        if run.backpressure is not None:
            run.backpressure.ended(call.step, call.key)
        self._accept(call, answer)
        self._gates.leave(call.step)
        self._pump(run)

    def _accept(self, call: Call, answer: Answer) -> None:
        run = call.run
        if not isinstance(answer, InferResponse):
            self._fail(run, self._in_ensemble(answer))
        elif not answer.head.empty and run.fault is None:
            key = call.key
            if self._graph.decoupled[call.step]:
                key = (*key, call.responses)
                call.responses += 1
                if run.backpressure is not None and run.backpressure.too_many(call.step):
                    self._stop(run, self._in_ensemble(too_slow(ensemble_backpressure.MOST_WAITING)))
                    return
            self._put(run, self._produced(call, answer), key)

    def _produced(self, call: Call, answer: InferResponse) -> dict[str, Value | None]:
        head = answer.head
        overrides = overrides_by(call, head.parameters) or None
        given = {
            output.name: Value(output.datatype, output.shape, data, overrides)
            for output, data in zip(head.outputs, answer.data, strict=True)
        }
        outputs = self._steps[call.step].outputs
        return {outputs[name]: given.get(name) for name in call.run.flow.view.asked[call.step]}

    # -- ends

    def _stop(self, run: Run, fault: RuntimeFault) -> None:
        """Fails the request, and tells the steps under way that nobody waits for them any more."""
        self._fail(run, fault)
        for call in list(run.calls):
            self._inference.cancel(call)

    def _fail(self, run: Run, fault: RuntimeFault) -> None:
        if run.fault is not None:
            return
        run.fault = fault
        if run.backpressure is not None:
            run.backpressure.leave()
        self._gates.forget(run)

    def _in_ensemble(self, fault: RuntimeFault) -> RuntimeFault:
        told = RuntimeFault(
            f"in ensemble '{self._config.name}', {fault.text}", reason=FailureReason.OTHER
        )
        told.code = fault.code
        return told

    def _end(self, run: Run) -> None:
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
            answer = InferResponse(self._heads.end(), ())
        elif run.outputs is not None:
            answer = run.outputs
        else:
            answer = self._in_ensemble(deadlock(request))
        if run.fault is None:
            self._stats.executed(self._device, times, request.plan.batch_size, request)
        self._inflight.finish(request, answer, self._device, times, self._clock())
        if self._draining and self._inflight.count == 0:
            self._emptied.set()

    def _times(self, run: Run) -> ExecutionTimes:
        """The steps' compute times are the ensemble's time of inference."""
        began_ns = run.started_ns
        ended_ns = began_ns + run.compute_ns
        return ExecutionTimes(began_ns, began_ns, ended_ns, ended_ns)
