"""Which requests are traced, and what becomes of their traces. While nothing may be traced nobody calls this."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from inference_runtime.spec.messages import InferRequest
from inference_runtime.telemetry.trace import SpanLink, Trace, read_traceparent
from inference_runtime.telemetry.trace_export import SpanExporter
from inference_runtime.telemetry.trace_file import TraceFile
from inference_runtime.telemetry.trace_settings import (
    TraceMode,
    TraceOptions,
    TraceSettings,
    TraceValues,
)


class _Sink(Protocol):
    def add(self, trace: Trace, log_frequency: int) -> None: ...
    def flush(self, owner: str, log_frequency: int) -> None: ...
    def close(self, log_frequency: Callable[[str], int]) -> None: ...


class Tracer:
    """`on_switch` is called whenever tracing begins or ends to make a difference."""

    def __init__(
        self, options: TraceOptions | None = None, *, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.options = options or TraceOptions()
        self.settings = TraceSettings(self.options)
        self.on_switch: Callable[[], None] = lambda: None
        self._clock = clock
        self._count = 0
        self._open: dict[str, int] = {}  # by owner: traces whose requests are not answered
        self._traces: dict[InferRequest, Trace] = {}  # the same, by request
        self._sink: _Sink
        if self.options.mode is TraceMode.OPENTELEMETRY:
            self._sink = SpanExporter(self.options.export)
        else:
            self._sink = TraceFile(self.options.file)
        self._propagates = self.options.mode is TraceMode.OPENTELEMETRY

    @property
    def active(self) -> bool:
        return self.settings.active

    def effective(self, model: str) -> TraceValues:
        return self.settings.effective(model)

    def change(self, model: str, changes: Mapping[str, Any]) -> TraceValues:
        owner = self.settings.owner(model)
        before = self.settings.effective(model)
        self.settings.change(model, changes)
        self._sink.flush(owner, before.log_frequency)
        self.on_switch()
        return self.settings.effective(model)

    def begin(self, request: InferRequest) -> Trace | None:
        """Call it for every request while active; None: this one is not traced."""
        model = request.head.model_name
        link = self._link_of(request)
        owner = self.settings.owner(model)
        values = self.settings.sample(model, propagated=link is not None)
        if values is None:
            return None
        trace = self._new(values, owner)
        trace.link = link
        self._begin(trace, request, getattr(request.context, "protocol", ""))
        if values.count == 0:
            self.on_switch()
        return trace

    @property
    def tracing(self) -> bool:
        """Whether a request is being traced right now."""
        return bool(self._traces)

    def begin_inner(self, request: InferRequest) -> Trace | None:
        """Of a request that a model makes: traced if the one it is part of is, which its context names."""
        parent = self._traces.get(getattr(request.context, "parent", None) or request)
        if parent is None:
            return None
        trace = self._new(parent.values, parent.owner)
        trace.parent = parent
        self._begin(trace, request, "")
        return trace

    def context_of(self, request: InferRequest) -> str | None:
        """What a service that the model calls is to be told, so that its spans belong to the model's."""
        trace = self._traces.get(request) if self._propagates else None
        if trace is None:
            return None
        span = trace.model_span()
        return json.dumps({"traceparent": f"00-{span.trace_id}-{span.span_id}-01"})

    def _new(self, values: TraceValues, owner: str) -> Trace:
        self._count += 1
        return Trace(self._count, values, owner, clock=self._clock, finished=self._finished)

    def _begin(self, trace: Trace, request: InferRequest, protocol: str) -> None:
        self._open[trace.owner] = self._open.get(trace.owner, 0) + 1
        self._traces[request] = trace
        trace.begin(request, protocol)

    def _link_of(self, request: InferRequest) -> SpanLink | None:
        header = getattr(request.context, "header", None) if self._propagates else None
        return read_traceparent(header("traceparent")) if header is not None else None

    def _finished(self, trace: Trace) -> None:
        owner, log_frequency = trace.owner, trace.values.log_frequency
        if trace.request is not None:
            del self._traces[trace.request]
            trace.request = None
        self._sink.add(trace, log_frequency)
        self._open[owner] -= 1
        if not self._open[owner]:
            del self._open[owner]
            if self.settings.effective(owner).count == 0:
                # Nothing more will come that could bring the rest along.
                self._sink.flush(owner, log_frequency)

    def close(self) -> None:
        """Writes what was gathered; may take as long as the disk does."""
        self._sink.close(lambda owner: self.settings.effective(owner).log_frequency)
