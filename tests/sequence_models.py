"""Accumulators with sequence controls and implicit state, as ONNX graphs, and their configs."""

from onnx import ModelProto, TensorProto, helper

from inference_runtime.spec.datatypes import config_name
from tests.onnx_models import ONNX_TYPES, OPSET

LISTS = {
    "INT32": "int32_false_true: [0, 1]",
    "FP32": "fp32_false_true: [0, 1]",
    "BOOL": "bool_false_true: [false, true]",
}
SLOW_TRIPS = 512


def accumulator(
    controls: str = "INT32", corrid: str = "UINT64", *, batching: bool = True, slow: bool = False
) -> ModelProto:
    """OUTPUT0 = SUM_IN + INPUT0, and that is SUM_OUT; FLAGS = START + 2 READY + 4 END; ID = CORRID.

    `slow`: an execution takes some ten milliseconds.
    """
    lead = ["batch"] if batching else []

    def port(name, datatype):
        return helper.make_tensor_value_info(name, ONNX_TYPES[datatype], [*lead, 1])

    nodes = [
        helper.make_node("Add", ["SUM_IN", "INPUT0"], ["SUM_OUT"]),
        helper.make_node("Identity", ["CORRID"], ["ID"]),
        helper.make_node("Cast", ["START"], ["start"], to=TensorProto.INT32),
        helper.make_node("Cast", ["READY"], ["ready"], to=TensorProto.INT32),
        helper.make_node("Cast", ["END"], ["end"], to=TensorProto.INT32),
        helper.make_node("Add", ["ready", "ready"], ["ready2"]),
        helper.make_node("Add", ["end", "end"], ["end2"]),
        helper.make_node("Add", ["end2", "end2"], ["end4"]),
        helper.make_node("Add", ["start", "ready2"], ["some"]),
        helper.make_node("Add", ["some", "end4"], ["FLAGS"]),
    ]
    if slow:
        nodes += _wasted_time()
    else:
        nodes.append(helper.make_node("Identity", ["SUM_OUT"], ["OUTPUT0"]))
    graph = helper.make_graph(
        nodes,
        "accumulator",
        [
            port("INPUT0", "INT32"),
            *(port(name, controls) for name in ("START", "READY", "END")),
            port("CORRID", corrid),
            port("SUM_IN", "INT32"),
        ],
        [
            *(port(name, "INT32") for name in ("OUTPUT0", "FLAGS", "SUM_OUT")),
            port("ID", corrid),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    return model


def _wasted_time():
    """OUTPUT0 = SUM_OUT + 0 × (a product that takes its time)."""
    size = 256
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [size, size])
    trips = helper.make_tensor("t", TensorProto.INT64, [], [SLOW_TRIPS // 8])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["keep_in"], ["keep_out"]),
            helper.make_node("MatMul", ["m_in", "matrix"], ["m_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("n", TensorProto.INT64, []),
            helper.make_tensor_value_info("keep_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("m_in", TensorProto.FLOAT, [size, size]),
        ],
        [
            helper.make_tensor_value_info("keep_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("m_out", TensorProto.FLOAT, [size, size]),
        ],
    )
    zero = helper.make_tensor("z", TensorProto.FLOAT, [1], [0.0])
    yes = helper.make_tensor("y", TensorProto.BOOL, [], [True])
    return [
        helper.make_node("Constant", [], ["shape"], value=shape),
        helper.make_node("Constant", [], ["trips"], value=trips),
        helper.make_node("Constant", [], ["keep"], value=yes),
        helper.make_node("ConstantOfShape", ["shape"], ["matrix"], value=zero),
        # The data of the request keeps the optimiser from folding the loop into a constant.
        helper.make_node("ReduceSum", ["INPUT0"], ["given"], keepdims=0),
        helper.make_node("Cast", ["given"], ["given_float"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["matrix", "given_float"], ["first"]),
        helper.make_node("Loop", ["trips", "keep", "first"], ["product"], body=body),
        helper.make_node("ReduceMax", ["product"], ["zero_float"], keepdims=0),
        helper.make_node("Cast", ["zero_float"], ["zero_int"], to=TensorProto.INT32),
        helper.make_node("Sub", ["zero_int", "zero_int"], ["nothing"]),
        helper.make_node("Add", ["SUM_OUT", "nothing"], ["OUTPUT0"]),
    ]


def accumulator_config(
    strategy: str = "direct { }",
    *,
    controls: str = "INT32",
    corrid: str = "UINT64",
    max_batch_size: int = 4,
    idle_us: int = 5_000_000,
    state: str = "",
    group: str = "instance_group { kind: KIND_CPU count: 1 }",
    more: str = "",
) -> str:
    """`config.pbtxt` of an accumulator: one instance, all controls, clients see INPUT0, OUTPUT0, FLAGS and ID."""
    flags = "\n".join(
        f'control_input {{ name: "{kind}" control {{ kind: CONTROL_SEQUENCE_{kind} {LISTS[controls]} }} }}'
        for kind in ("START", "READY", "END")
    )
    return f"""
max_batch_size: {max_batch_size}
input {{ name: "INPUT0" data_type: TYPE_INT32 dims: 1 }}
output {{ name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }}
output {{ name: "FLAGS" data_type: TYPE_INT32 dims: 1 }}
output {{ name: "ID" data_type: {config_name(corrid)} dims: 1 }}
{group}
sequence_batching {{
  {strategy}
  max_sequence_idle_microseconds: {idle_us}
  {flags}
  control_input {{ name: "CORRID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: {config_name(corrid)} }} }}
  state {{ input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: 1 {state} }}
}}
{more}
"""
