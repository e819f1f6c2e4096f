"""InferenceResponse: outputs or an error, and parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from inference_runtime.backends.python.stub import parameters as parameter_rules
from inference_runtime.backends.python.stub.errors import TritonError, TritonModelException
from inference_runtime.backends.python.stub.json_text import dumps
from inference_runtime.backends.python.stub.tensors import Tensor
from inference_runtime.backends.python.wire.arena import ArenaFull, Packer


class InferenceResponse:
    __slots__ = ("__weakref__", "_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: Sequence[Tensor] = (),
        error: TritonError | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        outputs = list(output_tensors)
        if None in outputs:
            raise TritonModelException("Output tensor for inference response should not be empty.")
        self._outputs = outputs
        self._error = error
        self._parameters = parameter_rules.checked(parameters)

    def output_tensors(self) -> list[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def parameters(self) -> str:
        return parameter_rules.text(self._parameters)

    def set_received_parameters(self, parameters: dict[str, Any]) -> None:
        """Those of a called model, which may hold floating point, too."""
        self._parameters = parameters

    def written(self, packer: Packer, wanted: Collection[str]) -> str:
        """As JSON; `wanted` names the outputs that travel. Raises what comes of a model's odd objects."""
        if self._error is not None:
            return error_text(self._error)
        mark = packer.mark()
        try:
            outputs = [
                f"{_fragment(output)}{packer.put(output.wire())}]"
                for output in self._outputs
                if output.name() in wanted
            ]
        except ArenaFull as full:
            packer.undo(mark)
            return error_text(TritonError(full_text(full)))
        except BaseException:
            packer.undo(mark)
            raise
        listed = "[" + ",".join(outputs) + "]"
        if self._parameters:
            return f'{{"o":{listed},"p":{dumps(self._parameters)}}}'
        return listed


def full_text(full: ArenaFull) -> str:
    return (
        f"Failed to increase the shared memory pool size: a tensor of {full.wanted} bytes does not fit "
        f"into what is free of {full.limit}; raise the backend option shm-max-byte-size"
    )


def error_text(error: TritonError) -> str:
    return dumps({"e": error.message(), "c": error.code()})


_fragments: dict[tuple[str, str, tuple[int, ...]], str] = {}


def _fragment(output: Tensor) -> str:
    """The part of an output that repeats, remembered."""
    key = (output.name(), output.datatype, tuple(output.shape()))
    fragment = _fragments.get(key)
    if fragment is None:
        if len(_fragments) >= 1024:
            _fragments.clear()
        fragment = _fragments[key] = dumps([key[0], key[1], key[2]])[:-1] + ","
    return fragment
