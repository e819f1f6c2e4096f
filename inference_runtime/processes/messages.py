"""Heads, regions and faults as JSON values and back; what is read is what was written, to the bit."""

from collections.abc import Mapping, Sequence
from typing import Any

from inference_runtime import errors
from inference_runtime.errors import FailureReason, FaultCode, Internal, RuntimeFault
from inference_runtime.spec.messages import (
    RequestedOutput,
    RequestHead,
    ResponseHead,
    TensorHead,
)
from inference_runtime.spec.region_span import RegionPlan, RegionSpan

_FAULTS: dict[str, type[RuntimeFault]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, RuntimeFault)
}


def request_head_value(head: RequestHead) -> list[Any]:
    return [
        head.model_name,
        head.version,
        _tensors_value(head.inputs),
        [
            [out.name, out.class_count, out.binary, _region_value(out.region), _parameters_value(out.parameters)]
            for out in head.outputs
        ],
        _parameters_value(head.parameters),
        head.priority,
        head.timeout_us,
        _scalar_value(head.sequence_id),
        head.sequence_start,
        head.sequence_end,
        head.binary_default,
        head.empty_final,
    ]  # fmt: skip


def read_request_head(value: Sequence[Any]) -> RequestHead:
    name, version, inputs, outputs, parameters, priority, timeout, sequence, *flags = value
    return RequestHead(
        model_name=name,
        version=version,
        inputs=_read_tensors(inputs),
        outputs=tuple(
            RequestedOutput(name, classes, binary, _read_region(region), _read_parameters(own))
            for name, classes, binary, region, own in outputs
        ),
        parameters=_read_parameters(parameters),
        priority=priority,
        timeout_us=timeout,
        sequence_id=_read_scalar(sequence),
        sequence_start=flags[0],
        sequence_end=flags[1],
        binary_default=flags[2],
        empty_final=flags[3],
    )


def response_head_value(head: ResponseHead) -> list[Any]:
    return [
        head.model_name,
        head.model_version,
        _tensors_value(head.outputs),
        _parameters_value(head.parameters),
        head.empty,
    ]


def read_response_head(value: Sequence[Any]) -> ResponseHead:
    name, version, outputs, parameters, empty = value
    return ResponseHead(name, version, _read_tensors(outputs), _read_parameters(parameters), empty)


def region_plan_value(plan: RegionPlan) -> list[Any]:
    return [
        [[index, _region_value(span)] for index, span in plan.inputs.items()],
        [[name, _region_value(span)] for name, span in plan.outputs.items()],
    ]


def read_region_plan(value: Sequence[Any]) -> RegionPlan:
    inputs, outputs = value
    return RegionPlan(
        {index: RegionSpan(*span) for index, span in inputs},
        {name: RegionSpan(*span) for name, span in outputs},
    )


def fault_value(fault: RuntimeFault) -> list[str]:
    known = next(kind for kind in type(fault).__mro__ if _FAULTS.get(kind.__name__) is kind)
    return [known.__name__, fault.text, fault.reason.value, fault.code.value]


def read_fault(value: Sequence[str]) -> RuntimeFault:
    name, text, reason, code = value
    kind = _FAULTS.get(name, Internal)
    fault = kind.__new__(kind)
    RuntimeFault.__init__(fault, text, reason=FailureReason(reason))
    fault.code = FaultCode(code)
    return fault


def _tensors_value(tensors: Sequence[TensorHead]) -> list[Any]:
    return [[tensor.name, tensor.datatype, tensor.shape] for tensor in tensors]


def _read_tensors(value: Sequence[Any]) -> tuple[TensorHead, ...]:
    return tuple(TensorHead(name, datatype, tuple(shape)) for name, datatype, shape in value)


def _region_value(span: RegionSpan | None) -> list[Any] | None:
    return None if span is None else [span.region, span.offset, span.byte_size]


def _read_region(value: Sequence[Any] | None) -> RegionSpan | None:
    return None if value is None else RegionSpan(*value)


def _parameters_value(parameters: Mapping[str, Any]) -> list[Any]:
    return [[key, *_scalar_value(value)] for key, value in parameters.items()]


def _read_parameters(value: Sequence[Any]) -> dict[str, Any]:
    return {key: _read_scalar(scalar) for key, *scalar in value}


def _scalar_value(value: Any) -> list[Any]:
    """JSON's numbers end at 64 bits and know no infinity."""
    if isinstance(value, bool):
        return ["b", value]
    if isinstance(value, int):
        return ["i", hex(value)]
    if isinstance(value, float):
        return ["f", value.hex()]
    return ["s", str(value)]


def _read_scalar(value: Sequence[Any]) -> Any:
    kind, content = value
    if kind == "i":
        return int(content, 16)
    if kind == "f":
        return float.fromhex(content)
    return content
