"""What scripts do through the public API, in the tests' words."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from stack.demo.api import Api


def lookup_model(folder: Path, *, rows: int, scale: float, name: str = "model") -> Path:
    """INDEX INT64 [N,1] → OUTPUT0 FP32 [N,1] = INDEX × scale. An INDEX of `rows` or more fails.

    So the answer tells which version gave it, and rows=19 fails one in twenty of range(20).
    """
    table = numpy_helper.from_array((np.arange(rows) * scale).astype(np.float32), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "INDEX"], ["OUTPUT0"], axis=0)],
        "lookup",
        [helper.make_tensor_value_info("INDEX", TensorProto.INT64, ["batch", 1])],
        [helper.make_tensor_value_info("OUTPUT0", TensorProto.FLOAT, ["batch", 1])],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / f"{name}.onnx"
    onnx.save(model, str(path))
    return path


def finish(api: Api, operation: dict[str, Any]) -> dict[str, Any]:
    return api.follow(operation, lambda _operation: None)


def publish(api: Api, model: str, file: Path) -> int:
    """Uploads and waits for the checks; the number of the READY version."""
    api.ensure_model(model, "")
    operation = finish(api, api.upload(model, file, lambda _sent: None))
    version = api.call("GET", operation["target"].removeprefix("/api/v1"))
    assert version["state"] == "READY", version
    return int(version["version"])


def deploy(api: Api, model: str, version: int) -> None:
    finish(api, api.call("POST", f"/models/{model}/versions/{version}:deploy", {}))


def steps(*weights: float, hold: float = 2, requests: int = 20) -> list[dict[str, Any]]:
    return [
        {"weight": weight, "hold_seconds": hold, "min_requests": requests} for weight in weights
    ]
