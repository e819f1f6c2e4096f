"""Memory that a model had comes back when it goes: measured at a process of its own."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conformance.clients import Client
from tests.conformance.runtime_process import runtime
from tests.onnx_models import write_model

pytestmark = pytest.mark.conformance
WEIGHT_BYTES = 4000 * 2000 * 4


def heavy():
    weights = numpy_helper.from_array(np.zeros((4000, 2000), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "heavy",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2000])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_load_and_unload_cycles_do_not_add_up(tmp_path):
    write_model(tmp_path / "r", "m", heavy())
    with runtime(tmp_path / "r", tmp_path / "log") as server:
        client = Client(server, "grpc")

        def memory() -> int:
            return server.call("GET", "/v2/switchyard/statistics")[1]["process"]["memory_bytes"]

        def unloaded() -> bool:
            index = client.get_model_repository_index().models
            return [entry.reason for entry in index] == ["unloaded"]

        def cycle() -> None:
            client.load_model("m")
            client.ask("m", {"x": np.zeros((1, 4000), np.float32)})
            client.unload_model("m")
            server.wait_for(unloaded, "the unload")

        # The first cycles leave about two copies behind (why was not looked into; allocator arenas of
        # the load threads are the guess). What is asked here is that further cycles add none.
        for _ in range(12):
            cycle()
        before = memory()
        for _ in range(20):
            cycle()
        server.wait_for(lambda: memory() - before < WEIGHT_BYTES, "memory of 20 copies is back")
        client.close()
