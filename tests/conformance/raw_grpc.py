"""Calls through a plain stub of the inference service: whatever message a test wants."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from inference_runtime import pb
from tests.conformance.runtime_process import WAIT_SECONDS, RuntimeProcess

_UNLIMITED = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


@contextmanager
def open_stub(server: RuntimeProcess, options: Any = _UNLIMITED) -> Iterator[Any]:
    with grpc.insecure_channel(server.grpc, options=options) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message_of(model: str, tensors: Iterable[Any], **fields: Any) -> pb.ModelInferRequest:
    """`tensors`: InferInputs of the stock client, with binary data."""
    made = pb.ModelInferRequest(model_name=model, **fields)
    for tensor in tensors:
        made.inputs.append(tensor._get_tensor())
        made.raw_input_contents.append(tensor._get_content())
    return made


def infer(server: RuntimeProcess, request: pb.ModelInferRequest) -> pb.ModelInferResponse:
    with open_stub(server) as stub:
        return stub.ModelInfer(request, timeout=WAIT_SECONDS)


def send_unreadable(server: RuntimeProcess, kind: str, model: str = "simple") -> None:
    """An inference that is none, over HTTP or gRPC; it is refused as its client's fault."""
    if kind == "http":
        status, _ = server.call("POST", f"/v2/models/{model}/infer", {"inputs": 1})
        assert status == 400
        return
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff", timeout=WAIT_SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
