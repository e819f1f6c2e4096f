"""The messages come without the client that they are packed with, and are the client's own all the same."""

import subprocess
import sys

import pytest

MESSAGES_FIRST = """
import sys
from inference_runtime import pb
assert "grpc" not in sys.modules, "grpcio was imported"
assert "tritonclient.grpc" not in sys.modules
import tritonclient.grpc
"""
CLIENT_FIRST = """
import tritonclient.grpc
from inference_runtime import pb
"""
SAME = """
from tritonclient.grpc import model_config_pb2, service_pb2
assert service_pb2.ModelInferRequest is pb.ModelInferRequest
assert model_config_pb2.ModelConfig is pb.ModelConfig
tensor = tritonclient.grpc.InferInput("INPUT0", [1], "FP32")
client = tritonclient.grpc.InferenceServerClient("127.0.0.1:1")
client.close()
"""


@pytest.mark.parametrize("first", [MESSAGES_FIRST, CLIENT_FIRST], ids=["messages", "client"])
def test_messages_and_client_are_imported_in_either_order(first):
    done = subprocess.run(
        [sys.executable, "-c", first + SAME], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
