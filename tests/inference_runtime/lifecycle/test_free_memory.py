"""Memory that a model had comes back when it goes."""

import numpy as np
import psutil
from onnx import TensorProto, helper, numpy_helper

from tests.inference_runtime.core_world import core_world, eventually
from tests.onnx_models import write_model

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


async def test_load_and_unload_cycles_do_not_add_up(tmp_path):
    write_model(tmp_path, "m", heavy())
    process = psutil.Process()
    async with core_world(tmp_path) as world:

        async def cycle():
            await world.load("m")
            await world.ask("m", x=np.zeros((1, 4000), np.float32))
            await world.unload("m")
            await eventually(lambda: world.states("m")["1"] == ("UNAVAILABLE", "unloaded"))

        await cycle()
        before = process.memory_info().rss
        for _ in range(10):
            await cycle()
        assert process.memory_info().rss - before < 3 * WEIGHT_BYTES
