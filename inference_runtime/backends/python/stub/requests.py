"""InferenceRequest: what `execute` is given, and what a model makes to call another model."""

from __future__ import annotations

import operator
import time
from collections.abc import Sequence
from typing import Any

from inference_runtime.backends.python.stub import calls, parameters as parameter_rules
from inference_runtime.backends.python.stub.errors import TritonModelException
from inference_runtime.backends.python.stub.link import PROCESS
from inference_runtime.backends.python.stub.senders import (
    Answers,
    InferenceResponseSender,
    is_cancelled,
)
from inference_runtime.backends.python.stub.tensors import Tensor

RELEASE_ALL = 1
RELEASE_RESCHEDULE = 2
# Between two questions to the server whether a request was cancelled.
_ASK_EVERY_SECONDS = 0.02


def _integer(value: Any) -> int:
    """Raises TypeError or OverflowError for what can not travel as one."""
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{number} does not fit into 64 bits")
    return number


class PreferredMemory:
    """Where a called model's outputs should lie. There is CPU memory only, which every wish gets."""

    def __init__(self, preferred_memory_type: int, preferred_device_id: int = 0) -> None:
        self.preferred_memory_type = preferred_memory_type
        self.preferred_device_id = preferred_device_id


class InferenceTrace:
    """Given to a request that a model makes, it has that request traced as part of the one it came from."""

    def __init__(self, request: int = 0) -> None:
        self.request = request

    def get_context(self) -> str | None:
        """JSON with the `traceparent` of the model's span; None where nothing is traced by OpenTelemetry."""
        if not self.request:
            return None
        context: str | None = PROCESS.link.ask("trace_context", request=self.request)
        return context


class InferenceRequest:
    def __init__(  # noqa: PLR0913 - the signature that models call
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Sequence[Tensor] = (),
        requested_output_names: Sequence[str] = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory | None = None,
        trace: InferenceTrace | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(correlation_id, int | str):
            raise TritonModelException("Correlation ID must be integer or string")
        which = f"request with id '{request_id}' and model name '{model_name}'"
        if any(tensor is None for tensor in inputs):
            raise TritonModelException(f"Input tensor for {which} should not be empty.")
        if not all(requested_output_names):
            raise TritonModelException(f"Requested output name for {which} should not be empty.")
        self._request_id = request_id
        self._correlation_id = correlation_id
        self._inputs = list(inputs)
        self._requested = tuple(requested_output_names)
        self._model_name = model_name
        self._model_version = _integer(model_version)
        self._flags = _integer(flags)
        self._timeout = _integer(timeout)
        self._trace = trace or InferenceTrace()
        self._parameters = parameter_rules.checked(parameters)
        self._priority = 0
        self._answers: Answers | None = None
        self._release_flags = RELEASE_ALL
        self._cancelled = False
        self._asked_at = 0.0

    @classmethod
    def received(
        cls, head: dict[str, Any], id_: str, inputs: list[Tensor], answers: Answers
    ) -> Any:
        """One that came from a client; everything in it has been checked by the server."""
        request = cls.__new__(cls)
        request._request_id = id_
        request._correlation_id = head["correlation_id"]
        request._inputs = inputs
        request._requested = head["outputs"]
        request._model_name = ""
        request._model_version = -1
        request._flags = head["flags"]
        request._timeout = head["timeout"]
        request._trace = InferenceTrace(answers.number)
        request._parameters = head["parameters"]
        request._priority = head["priority"]
        request._answers = answers
        request._release_flags = RELEASE_ALL
        request._cancelled = False
        request._asked_at = 0.0
        return request

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._request_id

    def correlation_id(self) -> int | str:
        return self._correlation_id

    def flags(self) -> int:
        return self._flags

    def set_flags(self, flags: int) -> None:
        self._flags = flags

    def timeout(self) -> int:
        return self._timeout

    def priority(self) -> int:
        return self._priority

    def parameters(self) -> str:
        return parameter_rules.text(self._parameters)

    def trace(self) -> InferenceTrace:
        return self._trace

    def requested_output_names(self) -> set[str]:
        return set(self._requested)

    def get_response_sender(self) -> InferenceResponseSender:
        if self._answers is not None:
            self._answers.sender_taken = True
        return InferenceResponseSender(self._answers)

    def is_cancelled(self) -> bool:
        if self._answers is None or self._cancelled:
            return self._cancelled
        now = time.monotonic()
        if now - self._asked_at >= _ASK_EVERY_SECONDS:
            self._asked_at = now
            self._cancelled = is_cancelled(self._answers.number)
        return self._cancelled

    def set_release_flags(self, flags: int, /) -> None:
        if flags not in (RELEASE_ALL, RELEASE_RESCHEDULE):
            raise TritonModelException(f"Unable to set release flags. Unsupported flags {flags}.")
        self._release_flags = flags

    def exec(self, decoupled: bool = False) -> Any:
        """The response of another model; with `decoupled` an iterator over all of them."""
        responses = calls.begin(self._call(), decoupled=decoupled)
        return responses if decoupled else responses.only()

    async def async_exec(self, decoupled: bool = False) -> Any:
        responses = calls.begin(self._call(), decoupled=decoupled)
        return responses if decoupled else await responses.only_later()

    def _call(self) -> calls.Call:
        return calls.Call(
            model=self._model_name,
            version=self._model_version,
            inputs=self._inputs,
            outputs=self._requested,
            details={
                "request_id": self._request_id,
                "correlation_id": self._correlation_id,
                "flags": self._flags,
                "timeout": self._timeout,
                "parameters": self._parameters,
                "trace": self._trace.request,
            },
        )

    # What the stub itself needs.

    @property
    def answers(self) -> Answers | None:
        return self._answers

    @property
    def rescheduled(self) -> bool:
        return self._release_flags == RELEASE_RESCHEDULE
