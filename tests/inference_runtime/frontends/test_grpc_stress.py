"""grpcio's own client, many calls at a time: answers, cancellations and deadlines, all accounted for."""

import random
import threading

import grpc
import numpy as np
import pytest

from inference_runtime import pb
from tests.inference_runtime.frontends.serving import unary

PATH = "/inference.GRPCInferenceService/ModelInfer"


def request(model, value):
    message = pb.ModelInferRequest(model_name=model, id=str(value) if value % 3 == 0 else "")
    entry = message.inputs.add(name="INPUT0", datatype="FP32")
    elements = (1, 7, 5000, 40_000)[value % 4]
    entry.shape.extend([1, elements])
    message.raw_input_contents.append(np.full(elements, value, np.float32).tobytes())
    return message


@pytest.mark.slow
def test_hundreds_of_calls_at_a_time_get_their_own_answers(served):
    served.core.keep_seen = False
    wrong = []

    def check(future, sent):
        answer = pb.ModelInferResponse.FromString(future.result())
        if answer.raw_output_contents[0] != sent.raw_input_contents[0] or answer.id != sent.id:
            wrong.append(sent.id)

    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, PATH)
        for start in range(0, 2000, 200):
            sent = [request("ident", start + step) for step in range(200)]
            futures = [call.future(one.SerializeToString(), timeout=60) for one in sent]
            for future, one in zip(futures, sent, strict=True):
                check(future, one)
    assert wrong == []


@pytest.mark.slow
def test_calls_cancelled_at_any_moment_leave_nothing_behind(served):
    served.core.keep_seen = False
    source = random.Random(5)
    outcomes = {"answered": 0, "cancelled": 0}
    stop = threading.Event()

    def release():
        while not stop.wait(0.002):
            served.call(lambda: [served.core.release(r) for r in list(served.core.waiting)[::2]])

    releaser = threading.Thread(target=release)
    releaser.start()
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, PATH)
        for _ in range(20):
            futures = [
                call.future(
                    request("held", value).SerializeToString(),
                    timeout=source.choice([0.001, 0.01, 30]),
                )
                for value in range(50)
            ]
            for future in source.sample(futures, 25):
                future.cancel()
            for future in futures:
                try:
                    future.result()
                    outcomes["answered"] += 1
                except (grpc.RpcError, grpc.FutureCancelledError):
                    outcomes["cancelled"] += 1
        live = unary(channel, "/inference.GRPCInferenceService/ServerLive")
        assert live(b"", timeout=20) == b"\x08\x01"
        stop.set()
        releaser.join()
        served.wait_until(lambda: not served.core.waiting)
        served.wait_until(
            lambda: all(not c.streams and not c.orphans for c in served.grpc.connections)
        )
    assert outcomes["answered"]
    assert outcomes["cancelled"]
    assert sum(outcomes.values()) == 1000
