"""What the installed ONNX Runtime supports, asked of itself instead of kept in a table."""

from functools import cache


def ort_version() -> str:
    import onnxruntime  # noqa: TID251  (checks must ask the library that will serve)

    return str(onnxruntime.__version__)


@cache
def newest_opset() -> int:
    """The newest opset of ai.onnx that loads; development opsets are refused by ONNX Runtime."""
    import onnx

    newest = int(onnx.defs.onnx_opset_version())
    return next((number for number in range(newest, 0, -1) if _loads(number, 8)), 0)


@cache
def newest_ir() -> int:
    import onnx

    newest = int(onnx.IR_VERSION)
    return next((number for number in range(newest, 0, -1) if _loads(13, number)), 0)


@cache
def known_operators() -> dict[tuple[str, str], int]:
    """(domain, operator), with "" for ai.onnx → the opset that first had it."""
    from onnxruntime.capi import (  # noqa: TID251
        onnxruntime_pybind11_state as state,
    )

    since: dict[tuple[str, str], int] = {}
    for row in state.get_all_operator_schema():
        key = (row.domain, row.name)
        since[key] = min(since.get(key, row.since_version), row.since_version)
    return since


def _loads(opset: int, ir_version: int) -> bool:
    import onnxruntime  # noqa: TID251
    from onnx import TensorProto, helper

    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("from", "to")
    ]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["from"], ["to"])], "probe", tensors[:1], tensors[1:]
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # noqa: BLE001  (any refusal means: not supported)
        return False
    return True
