"""The command-line clients of HTTP/2, nghttp and h2load, as gRPC clients: what they send is sent by no other client."""

import re
import subprocess

import numpy as np
import pytest

from inference_runtime import pb
from tests.inference_runtime.frontends.serving import Served

PATH = "/inference.GRPCInferenceService/ModelInfer"
HEADERS = ("-H", "content-type: application/grpc", "-H", "te: trailers")
VALUES = np.arange(5000, dtype=np.float32)  # more than one frame holds


@pytest.fixture
def call(tmp_path):
    """A file with the message of an inference, as it goes into DATA."""
    request = pb.ModelInferRequest(model_name="ident")
    request.inputs.add(name="INPUT0", datatype="FP32", shape=[1, VALUES.size])
    request.raw_input_contents.append(VALUES.tobytes())
    message = request.SerializeToString()
    path = tmp_path / "call"
    path.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
    return path


def run(program: str, served: Served, *arguments: str) -> bytes:
    command = [program, *arguments, f"http://{served.grpc_address}{PATH}"]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    "more",
    [(), ("--no-dep",), ("--padding=64",), ("--continuation",), ("--window-bits=10",)],
    ids=["usual", "no priorities", "padded", "header continued", "small windows"],
)
def test_nghttp_gets_its_answer(served, call, more):
    out = run("nghttp", served, f"--data={call}", *HEADERS, *more)
    answer = pb.ModelInferResponse.FromString(out[5:])
    assert answer.raw_output_contents[0] == VALUES.tobytes()


def test_nghttp_multiplexes(served, call):
    one = run("nghttp", served, f"--data={call}", *HEADERS)
    # It writes down frames as they come, of all streams.
    out = run("nghttp", served, f"--data={call}", *HEADERS, "--multiply=20")
    assert sorted(out) == sorted(one * 20)
    assert len(served.core.seen) == 21


def test_h2load_is_answered_every_time(served, call):
    served.core.keep_seen = False
    out = run("h2load", served, f"--data={call}", *HEADERS, "-n400", "-c4", "-m10").decode()
    assert "400 succeeded, 0 failed, 0 errored, 0 timeout" in out
    assert "status codes: 400 2xx" in out
    # Each answer in full.
    data = re.search(r"\((\d+)\) data", out)
    assert int(data[1]) > 400 * VALUES.nbytes
