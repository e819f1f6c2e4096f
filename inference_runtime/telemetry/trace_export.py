"""Traces as OpenTelemetry spans, posted to a collector (OTLP over HTTP, its JSON encoding).

A thread of its own sends what has gathered every so often, or sooner when a batch is full. When the
collector does not keep up, spans are dropped and counted in the log; requests never wait for it.
"""

import logging
import queue
import secrets
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final

import orjson

from inference_runtime.telemetry.trace import Moment, SpanLink, Trace
from inference_runtime.telemetry.trace_settings import ExportOptions

logger = logging.getLogger(__name__)

Span = dict[str, Any]

_SERVICE: Final = {"service.name": "triton-inference-server"}
_SCOPE: Final = "triton-server"
_INTERNAL: Final = 1
_SERVER: Final = 2
_TIMEOUT_S: Final = 10.0
_FAREWELL_S: Final = 3.0  # the server ends, whatever the collector does
_OF_THE_MODEL: Final = frozenset(
    {"REQUEST_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE", "REQUEST_END"}
)


class SpanExporter:
    def __init__(self, options: ExportOptions) -> None:
        self._options = options
        url = options.url
        self._url = url if "://" in url else f"http://{url}"
        self._queue: queue.Queue[Span] = queue.Queue(max(options.max_queue_size, 1))
        self._dropped = 0
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        # Spans are dated by the clock on the wall, requests by one that never jumps.
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def add(self, trace: Trace, log_frequency: int) -> None:
        for span in spans(trace, self._offset_ns):
            try:
                self._queue.put_nowait(span)
            except queue.Full:
                self._dropped += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trace-export", daemon=True)
            self._thread.start()
        if self._queue.qsize() >= self._options.max_export_batch_size:
            self._wake.set()

    def flush(self, owner: str, log_frequency: int) -> None:
        """Spans leave by the clock."""

    def close(self, log_frequency: Callable[[str], int]) -> None:
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_FAREWELL_S)

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(self._options.schedule_delay_ms / 1000)
            self._wake.clear()
            self._send_all()

    def _send_all(self) -> None:
        if self._dropped:
            logger.warning("%d spans were dropped: the collector does not keep up", self._dropped)
            self._dropped = 0
        while batch := self._batch():
            try:
                self._post(batch)
            except (OSError, ValueError, HTTPException) as error:
                logger.warning("%d spans could not be exported: %s", len(batch), error)
                if self._closing:
                    return

    def _batch(self) -> list[Span]:
        batch: list[Span] = []
        while len(batch) < max(self._options.max_export_batch_size, 1):
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _post(self, batch: Sequence[Span]) -> None:
        body = orjson.dumps(
            {
                "resourceSpans": [
                    {
                        "resource": {
                            "attributes": _attributes({**_SERVICE, **self._options.resource})
                        },
                        "scopeSpans": [{"scope": {"name": _SCOPE}, "spans": batch}],
                    }
                ]
            }
        )
        request = urllib.request.Request(
            self._url, body, {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            answer.read()


def spans(trace: Trace, offset_ns: int) -> list[Span]:
    """The request, the model inside it, and the computation inside that; none without timestamps.

    A request that is part of another begins with its model, inside the other's.
    """
    if not trace.moments:
        return []
    model_link = trace.model_span()
    link = trace.link or SpanLink(model_link.trace_id, "")
    moments = [(name, ns + offset_ns) for name, ns in trace.moments]
    of_model = [moment for moment in moments if moment[0] in _OF_THE_MODEL]
    computing = [moment for moment in moments if moment[0].startswith("COMPUTE_")]
    outside = [moment for moment in moments if moment not in of_model and moment not in computing]
    found: list[Span] = []
    if trace.parent is not None:
        parent = trace.parent.model_span()
    else:
        found.append(_span("InferRequest", link, outside or of_model, kind=_SERVER))
        parent = SpanLink(link.trace_id, found[0]["spanId"])
    model = _span(trace.model_name, parent, of_model)
    model["spanId"] = model_link.span_id
    attributes = {
        "triton.model_name": trace.model_name,
        "triton.model_version": trace.model_version,
        "triton.trace_id": str(trace.id),
    }
    if trace.request_id:
        attributes["triton.request_id"] = trace.request_id
    model["attributes"] = _attributes(attributes)
    found.append(model)
    if computing:
        found.append(_span("compute", model_link, computing))
    return found


def _span(name: str, parent: SpanLink, moments: Sequence[Moment], *, kind: int = _INTERNAL) -> Span:
    span: Span = {
        "traceId": parent.trace_id,
        "spanId": secrets.token_hex(8),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(min(ns for _, ns in moments)),
        "endTimeUnixNano": str(max(ns for _, ns in moments)),
        "events": [{"timeUnixNano": str(ns), "name": event} for event, ns in moments],
    }
    if parent.span_id:
        span["parentSpanId"] = parent.span_id
    return span


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
