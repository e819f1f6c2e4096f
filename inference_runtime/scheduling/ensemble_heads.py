"""Heads of the requests that an ensemble makes and of its answers: what is equal is made once. Pure."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from inference_runtime.scheduling.ensemble_flow import Value
from inference_runtime.scheduling.ensemble_run import Call, Overrides
from inference_runtime.spec.ensemble import LATEST, EnsembleStep
from inference_runtime.spec.messages import RequestedOutput, RequestHead, ResponseHead, TensorHead

_MAX_HEADS = 1024
_SEQUENCE = ("sequence_id", "sequence_start", "sequence_end")


class EnsembleHeads:
    def __init__(self, name: str, version: str, steps: Sequence[EnsembleStep]) -> None:
        self._name = name
        self._version = version
        self._steps = steps
        self._requests: dict[Hashable, RequestHead] = {}
        self._answers: dict[Hashable, ResponseHead] = {}

    def request(
        self,
        index: int,
        origin: RequestHead,
        asked: tuple[str, ...],
        inputs: tuple[Sequence[str], Sequence[Value]],
        overrides: Overrides,
    ) -> RequestHead:
        """Of a request to that step, with names and values of its inputs."""
        names, values = inputs
        key = (
            index,
            origin,
            asked,
            tuple([(n, v.shape) for n, v in zip(names, values, strict=True)]),
        )
        known = self._requests.get(key) if not overrides else None
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
            if len(self._requests) >= _MAX_HEADS:
                self._requests = {}
            self._requests[key] = head
        return head

    def answer(self, heads: Sequence[TensorHead], overrides: Overrides) -> ResponseHead:
        key = (
            tuple([(head.name, head.shape) for head in heads]),
            tuple(sorted(overrides.items(), key=lambda item: item[0])),
        )
        known = self._answers.get(key)
        if known is None:
            if len(self._answers) >= _MAX_HEADS:
                self._answers = {}
            known = self._answers[key] = ResponseHead(
                self._name, self._version, tuple(heads), overrides
            )
        return known

    def end(self) -> ResponseHead:
        """Of the end of a stream."""
        return ResponseHead(self._name, self._version, (), empty=True)


def overrides_by(call: Call, parameters: Mapping[str, Any]) -> Overrides:
    """Those of what an answer with these parameters leads to.

    A step that gives any of them gives all three: a flag that it does not set is off, the id stays its own.
    """
    if not parameters or not any(key in parameters for key in _SEQUENCE):
        return call.overrides
    id_ = call.overrides.get("sequence_id", call.parent.head.sequence_id)
    return {
        "sequence_id": parameters.get("sequence_id", id_),
        "sequence_start": parameters.get("sequence_start", False),
        "sequence_end": parameters.get("sequence_end", False),
    }
