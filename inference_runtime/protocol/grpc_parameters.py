"""Parameters of a ModelInferRequest: the protobuf forms of what request_parameters.py means."""

from collections.abc import Mapping
from typing import Any, Final

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol.request_parameters import (
    Reader,
    RequestParameters,
    refuse_reserved,
)
from inference_runtime.spec.messages import RequestedOutput
from inference_runtime.spec.region_span import RegionSpan

_ALLOWED: Final = (
    ". Only the following keys starting with 'triton_' are allowed: "
    "triton_enable_empty_final_response"
)


def read_request(parameters: Mapping[str, pb.InferParameter]) -> RequestParameters:
    return RequestParameters().read(parameters, _READERS, _custom)


def read_output(entry: Any) -> RequestedOutput:
    """Of an InferRequestedOutputTensor. Parameters that mean nothing to us are ignored."""
    class_count = 0
    if "classification" in entry.parameters:
        parameter = entry.parameters["classification"]
        if parameter.WhichOneof("parameter_choice") != "int64_param":
            raise InvalidArgument(
                "invalid value type for 'classification' parameter, expected int64_param"
            )
        class_count = parameter.int64_param
        if class_count <= 0:
            raise InvalidArgument("invalid value for 'classification' parameter, expected >= 0")
    if class_count and "shared_memory_region" in entry.parameters:
        raise InvalidArgument("output can't set both 'shared_memory_region' and 'classification'")
    return RequestedOutput(name=entry.name, class_count=class_count, region=read_span(entry))


def read_span(tensor: Any) -> RegionSpan | None:
    """Where an input or a requested output lies in shared memory. Whether there is such a region is asked later."""
    parameters = tensor.parameters
    if "shared_memory_region" not in parameters:
        for key in ("shared_memory_offset", "shared_memory_byte_size"):
            if key in parameters:
                raise InvalidArgument(
                    f"'{key}' can not be specified without 'shared_memory_region' parameter for tensor "
                    f"'{tensor.name}'"
                )
        return None
    if "shared_memory_byte_size" not in parameters:
        raise InvalidArgument(
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter "
            f"for tensor '{tensor.name}'"
        )
    offset = 0
    if "shared_memory_offset" in parameters:
        offset = _of_tensor(tensor, "shared_memory_offset", "int64_param")
    return RegionSpan(
        _of_tensor(tensor, "shared_memory_region", "string_param"),
        offset % 2**64,  # read as unsigned, as Triton does
        _of_tensor(tensor, "shared_memory_byte_size", "int64_param") % 2**64,
    )


def _of_tensor(tensor: Any, key: str, expected: str) -> Any:
    parameter = tensor.parameters[key]
    if parameter.WhichOneof("parameter_choice") != expected:
        raise InvalidArgument(
            f"invalid value type for '{key}' parameter for tensor '{tensor.name}', expected {expected}."
        )
    return getattr(parameter, expected)


def _wrong_type(key: str, expected: str) -> InvalidArgument:
    return InvalidArgument(f"invalid value type for '{key}' parameter, expected {expected}.")


def _boolean(key: str, parameter: Any) -> bool:
    if parameter.WhichOneof("parameter_choice") != "bool_param":
        raise _wrong_type(key, "bool_param")
    return bool(parameter.bool_param)


def _sequence_id(into: RequestParameters, key: str, parameter: Any) -> None:
    kind = parameter.WhichOneof("parameter_choice")
    if kind == "int64_param":
        into.sequence_id = parameter.int64_param % 2**64  # read as unsigned, as Triton does
    elif kind == "string_param":
        into.sequence_id = parameter.string_param
    else:
        raise _wrong_type(key, "int64_param or string_param")


def _sequence_start(into: RequestParameters, key: str, parameter: Any) -> None:
    into.sequence_start = _boolean(key, parameter)


def _sequence_end(into: RequestParameters, key: str, parameter: Any) -> None:
    into.sequence_end = _boolean(key, parameter)


def _priority(into: RequestParameters, key: str, parameter: Any) -> None:
    kind = parameter.WhichOneof("parameter_choice")
    if kind not in ("int64_param", "uint64_param"):
        raise _wrong_type(key, "int64_param or uint64_param")
    value = getattr(parameter, kind)
    if value < 0:
        raise InvalidArgument("invalid value for 'priority', expected value >= 0.")
    into.priority = value


def _timeout(into: RequestParameters, key: str, parameter: Any) -> None:
    if parameter.WhichOneof("parameter_choice") != "int64_param":
        raise _wrong_type(key, "int64_param")
    if parameter.int64_param < 0:
        raise InvalidArgument("invalid value for 'timeout', expected value >= 0.")
    into.timeout_us = parameter.int64_param


def _empty_final_response(into: RequestParameters, key: str, parameter: Any) -> None:
    into.empty_final = _boolean(key, parameter)


def _custom(into: RequestParameters, key: str, parameter: Any) -> None:
    refuse_reserved(key, _ALLOWED)
    kind = parameter.WhichOneof("parameter_choice")
    if kind is None or kind == "uint64_param":
        raise _wrong_type(key, "int64_param, bool_param, or string_param")
    into.custom[key] = getattr(parameter, kind)


_READERS: Final[Mapping[str, Reader]] = {
    "sequence_id": _sequence_id,
    "sequence_start": _sequence_start,
    "sequence_end": _sequence_end,
    "priority": _priority,
    "timeout": _timeout,
    "triton_enable_empty_final_response": _empty_final_response,
}
