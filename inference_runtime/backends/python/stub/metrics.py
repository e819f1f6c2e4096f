"""Metrics of a model's own: the server keeps the values, these are their handles."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from inference_runtime.backends.python.stub.errors import TritonModelException
from inference_runtime.backends.python.stub.json_text import dumps
from inference_runtime.backends.python.stub.link import PROCESS
from inference_runtime.backends.python.wire.frames import Kind

COUNTER = "COUNTER"
GAUGE = "GAUGE"
HISTOGRAM = "HISTOGRAM"

_DELETED = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' "
    "object should be deleted AFTER its corresponding 'Metric' objects have been deleted."
)
# operation → (prefix of its errors, kinds that have it)
_OPERATIONS = {
    "increment": ("Failed to increment metric value: ", (COUNTER, GAUGE)),
    "set": ("Failed to set metric value: ", (GAUGE,)),
    "observe": ("Failed to observe metric value: ", (HISTOGRAM,)),
    "value": ("Failed to get metric value: ", (COUNTER, GAUGE)),
}


class MetricKind:
    COUNTER = COUNTER
    GAUGE = GAUGE
    HISTOGRAM = HISTOGRAM


class MetricFamily:
    COUNTER = COUNTER
    GAUGE = GAUGE
    HISTOGRAM = HISTOGRAM

    def __init__(self, name: str, description: str, kind: str) -> None:
        self._kind = kind
        try:
            self._id = PROCESS.link.ask(
                "metric_family", name=name, description=description, kind=kind
            )
        except TritonModelException as error:
            raise TritonModelException(f"Error when creating MetricFamily: {error}") from None
        weakref.finalize(self, _forget, "family", self._id).atexit = False

    def Metric(self, labels: Any = None, buckets: Any = None) -> Metric:
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if self._kind != HISTOGRAM and buckets is not None:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        if self._kind == HISTOGRAM and buckets is None:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        return Metric(self, self._id, self._kind, labels or {}, buckets or ())


class Metric:
    def __init__(
        self,
        family: MetricFamily,
        family_id: int,
        kind: str,
        labels: dict[str, str],
        buckets: Sequence[float],
    ) -> None:
        self._family = weakref.ref(family)
        self._kind = kind
        try:
            self._id = PROCESS.link.ask(
                "metric",
                family=family_id,
                labels={str(key): str(value) for key, value in labels.items()},
                buckets=[float(bound) for bound in buckets],
            )
        except TritonModelException as error:
            raise TritonModelException(f"Error when creating Metric: {error}") from None
        weakref.finalize(self, _forget, "metric", self._id).atexit = False

    def increment(self, value: float) -> None:
        self._check("increment")
        if self._kind == COUNTER and value < 0:
            raise TritonModelException(
                f"{_OPERATIONS['increment'][0]}TRITONSERVER_METRIC_KIND_COUNTER can only be incremented "
                f"monotonically by non-negative values."
            )
        self._change("increment", value)

    def set(self, value: float) -> None:
        self._check("set")
        self._change("set", value)

    def observe(self, value: float) -> None:
        self._check("observe")
        self._change("observe", value)

    def value(self) -> float:
        self._check("value")
        try:
            return float(PROCESS.link.ask("metric_value", metric=self._id))
        except TritonModelException as error:
            raise TritonModelException(f"{_OPERATIONS['value'][0]}{error}") from None

    def _check(self, operation: str) -> None:
        if self._family() is None:
            raise TritonModelException(_DELETED)
        prefix, kinds = _OPERATIONS[operation]
        if self._kind not in kinds:
            raise TritonModelException(f"{prefix}Unsupported TRITONSERVER_MetricKind {self._kind}")

    def _change(self, operation: str, value: float) -> None:
        PROCESS.link.tell("metric_change", metric=self._id, by=operation, value=float(value))


def _forget(what: str, number: int) -> None:
    text = dumps({"what": "metric_forget", "kind": what, "id": number})
    PROCESS.link.post_at_last(Kind.TELL, text)
