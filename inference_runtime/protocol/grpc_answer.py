"""InferResponse → the bytes of a ModelInferResponse, in parts that frame and tensors can be put between."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import classification
from inference_runtime.protocol.grpc_wire import (
    RAW_OUTPUT_TAG,
    RESPONSE_ID_TAG,
    STREAM_RESPONSE_TAG,
    varint,
)
from inference_runtime.protocol.http_answer import facts_of
from inference_runtime.protocol.json_tensors import item_size
from inference_runtime.spec.messages import (
    Bytes,
    InferResponse,
    RequestHead,
    ResponseHead,
    TensorHead,
)

FINAL_RESPONSE = "triton_final_response"
MESSAGE_LIMIT = 2**31 - 1  # bytes that protobuf, and every client of it, puts into one message


def head_bytes(
    head: ResponseHead, outputs: Sequence[TensorHead], *, final: bool | None = None
) -> bytes:
    """Everything of the response but its id and its data."""
    response = pb.ModelInferResponse(model_name=head.model_name, model_version=head.model_version)
    for key, value in head.parameters.items():
        set_parameter(response.parameters[key], value)
    if final is not None:
        response.parameters[FINAL_RESPONSE].bool_param = final
    for output in outputs:
        entry = response.outputs.add(name=output.name, datatype=output.datatype)
        entry.shape.extend(output.shape)
    return bytes(response.SerializeToString())


def set_parameter(parameter: pb.InferParameter, value: Any) -> None:
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, int):
        parameter.int64_param = value
    elif isinstance(value, float):
        parameter.double_param = value
    else:
        parameter.string_param = str(value)


def id_bytes(id_: str) -> bytes:
    encoded = id_.encode()
    return RESPONSE_ID_TAG + varint(len(encoded)) + encoded


def raw_mark(size: int) -> bytes:
    """What stands in front of one tensor's data."""
    return RAW_OUTPUT_TAG + varint(size)


def is_plain(request: RequestHead, response: ResponseHead) -> bool:
    """Nothing but the tensors' bytes differs between answers: their frame can be made once."""
    if not all(item_size(output.datatype) for output in response.outputs):
        return False
    if not request.outputs:
        return True
    plain = {output.name for output in request.outputs if not output.class_count}
    return all(output.name in plain for output in response.outputs)


def encode(
    request: RequestHead,
    id_: str,
    answer: InferResponse,
    version: Any,
    *,
    final: bool | None = None,
) -> list[Bytes]:
    """The message in parts, data not copied; raises InvalidArgument where there can be none."""
    asked = {output.name: output for output in request.outputs}
    outputs: list[TensorHead] = []
    parts: list[Bytes] = []
    for output, data in zip(answer.head.outputs, answer.data, strict=True):
        how = asked.get(output.name)
        if asked and how is None:
            continue
        if how is not None and how.class_count:
            facts = facts_of(version)
            output, data = classification.classify(
                output, data, how.class_count, facts.labels.get(output.name, ()), facts.batching
            )
        outputs.append(output)
        parts.append(raw_mark(len(data)))
        parts.append(data)
    first = head_bytes(answer.head, outputs, final=final)
    message = [first + id_bytes(id_) if id_ else first, *parts]
    if sum(map(len, message)) > MESSAGE_LIMIT:
        raise InvalidArgument(f"the response exceeds {MESSAGE_LIMIT} bytes")
    return message


def stream_answer(parts: Sequence[Bytes]) -> list[Bytes]:
    """The parts of a ModelInferResponse wrapped as a ModelStreamInferResponse."""
    return [STREAM_RESPONSE_TAG + varint(sum(map(len, parts))), *parts]


def stream_fault(text: str, id_: str, accepted: RequestHead | None, *, final: bool = True) -> bytes:
    """A failed request of a stream. `accepted`: it got as far as the core, which is told apart."""
    response = pb.ModelStreamInferResponse(error_message=text)
    response.infer_response.id = id_
    if accepted is not None:
        response.infer_response.model_name = accepted.model_name
        response.infer_response.model_version = accepted.version
        response.infer_response.parameters[FINAL_RESPONSE].bool_param = final
    return bytes(response.SerializeToString())


def id_of(message: bytes) -> str:
    """The id of a request that was refused; "" when the message can not be read at all."""
    try:
        return str(pb.ModelInferRequest.FromString(message).id)
    except DecodeError:
        return ""
