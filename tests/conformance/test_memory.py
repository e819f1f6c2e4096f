"""Memory that a model had comes back when it goes: measured at a process of its own."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conformance.clients import Client
from tests.conformance.runtime_process import runtime
from tests.onnx_models import write_model

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

ROWS = 4000
WEIGHT_BYTES = 32_000_000
TOLERANCE_BYTES = WEIGHT_BYTES // 4
CYCLES = 10


def heavy(parts: int):
    """WEIGHT_BYTES of weights in so many tensors."""
    columns = WEIGHT_BYTES // 4 // ROWS // parts
    weights = [
        numpy_helper.from_array(np.full((ROWS, columns), number, np.float32), f"w{number}")
        for number in range(parts)
    ]
    products = [f"y{number}" for number in range(parts)]
    nodes = [
        helper.make_node("MatMul", ["x", weight.name], [product])
        for weight, product in zip(weights, products, strict=True)
    ]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Sum", products, ["y"])],
        "heavy",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", ROWS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", columns])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("parts", [1, 10, 200])
def test_the_memory_of_a_model_comes_back_with_every_unload(tmp_path, parts):
    write_model(tmp_path / "r", "m", heavy(parts))
    with runtime(tmp_path / "r", tmp_path / "log") as server:
        client = Client(server, "grpc")

        def memory() -> int:
            return server.call("GET", "/v2/switchyard/statistics")[1]["process"]["memory_bytes"]

        def unloaded() -> bool:
            index = client.get_model_repository_index().models
            return [entry.reason for entry in index] == ["unloaded"]

        def cycle() -> None:
            client.load_model("m")
            client.ask("m", {"x": np.zeros((1, ROWS), np.float32)})
            client.unload_model("m")
            server.wait_for(unloaded, "the unload")

        cycle()  # the libraries come with the first model and stay
        before = memory()
        for _ in range(CYCLES):
            cycle()
            server.wait_for(lambda: memory() - before < TOLERANCE_BYTES, "the memory is back")
        client.close()
