"""The config of models of the backend `repeat`: as many answers as there are elements in IN, after DELAY each."""

REPEAT_PORTS = """
backend: "repeat" max_batch_size: 0
input { name: "IN" data_type: TYPE_INT32 dims: [-1] }
input { name: "DELAY" data_type: TYPE_UINT32 dims: [-1] }
input { name: "WAIT" data_type: TYPE_UINT32 dims: [1] }
output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
output { name: "IDX" data_type: TYPE_UINT32 dims: [1] }
"""
DECOUPLED = "model_transaction_policy { decoupled: true }"
REPEAT = REPEAT_PORTS + DECOUPLED + "\n"
