"""A repository with one model of each kind of scheduler and backend."""

from pathlib import Path

from tests.conformance.limited_models import need, write_echo
from tests.conformance.python_models import write_python_model
from tests.conformance.repeat_model import write_repeat
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import add_constant, add_sub, write_model
from tests.sequence_models import accumulator, accumulator_config

INTS = "data_type: TYPE_INT32 dims: [16]"
PYTHON = """
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] }
input { name: "INPUT1" data_type: TYPE_FP32 dims: [4] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [4] }
output { name: "OUTPUT1" data_type: TYPE_FP32 dims: [4] }
dynamic_batching { }
instance_group { count: 2 kind: KIND_CPU }
"""


def write_repository(path: Path) -> None:
    for name in ("simple", "changing"):
        write_model(path, name, add_sub(), config="max_batch_size: 8 dynamic_batching { }")
    write_model(path, "comes_and_goes", add_constant(1))
    for strategy in ("direct", "oldest"):
        config = accumulator_config(f"{strategy} {{ }}", idle_us=60_000_000)
        write_model(path, f"sums_{strategy}", accumulator(), config=config)
    write_echo(path, "cached", rows=8, more="response_cache { enable: true }")
    write_echo(path, "limited", rows=8, needs=need("slot"), instances=2)
    write_repeat(path)
    write_python_model(path, "add_sub", config=PYTHON)
    ports = {"INPUT0": INTS, "INPUT1": INTS}
    steps = step(
        "simple", {name: name for name in ports}, {"OUTPUT0": "sum", "OUTPUT1": "difference"}
    ) + step("simple", {"INPUT0": "sum", "INPUT1": "difference"}, {"OUTPUT0": "OUTPUT0"})
    write_ensemble(
        path, "twice", steps, inputs=ports, outputs={"OUTPUT0": INTS}, more="max_batch_size: 8"
    )


NAMES = (
    *("simple", "changing", "sums_direct", "sums_oldest", "cached", "limited", "repeat"),
    *("add_sub", "twice"),
)
OPTIONS = (
    *(f"--load-model={name}" for name in NAMES),
    "--allow-client-shm=true",
    "--cache-config=local,size=4000000",
    "--rate-limit=execution_count",
    "--rate-limit-resource=slot:1",
)
