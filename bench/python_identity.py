"""`python -m bench.python_identity`: what a process of its own costs a Python model.

The same echo three times, in alternating rounds: as Python in this process and nothing around it, served by
the identity backend, and served as a Python model. Requests per second as ratios.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench import command, load
from bench.served import Served, serve
from bench.subjects import Subject
from inference_runtime.backends.python.stub.requests import InferenceRequest
from inference_runtime.backends.python.stub.responses import InferenceResponse
from inference_runtime.backends.python.stub.tensors import Tensor

_BATCH = 64
_ITEM = np.arange(16, dtype=np.float32)[None]
_CONFIG = f"""
name: "{{name}}"
backend: "{{backend}}"
max_batch_size: {_BATCH}
input {{{{ name: "IN" data_type: TYPE_FP32 dims: [16] }}}}
output {{{{ name: "OUT" data_type: TYPE_FP32 dims: [16] }}}}
dynamic_batching {{{{ }}}}
"""
_MODEL = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())])
            for request in requests
        ]
"""


def main() -> int:
    parser = command.command("bench.python_identity", __doc__)
    parser.add_argument("--connections", default="1,32,64")
    arguments = command.parse(parser)
    with tempfile.TemporaryDirectory() as folder:
        _write_models(Path(folder))
        with serve(Path(folder)) as served:
            print(
                "| protocol | connections | python ÷ in process | python ÷ identity | python, requests/s |"
            )
            print("|---|---|---|---|---|")
            for protocol in ("grpc", "http"):
                for connections in map(int, arguments.connections.split(",")):
                    _row(served, protocol, connections, arguments)
    return 0


def _write_models(folder: Path) -> None:
    for name, backend in (("python", "python"), ("native", "identity")):
        version = folder / name / "1"
        version.mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(_CONFIG.format(name=name, backend=backend))
    (folder / "python" / "1" / "model.py").write_text(_MODEL)


def _row(served: Served, protocol: str, connections: int, arguments: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {"python": [], "native": []}
    bare: list[float] = []
    for _ in range(arguments.rounds):
        bare.append(_in_process(min(connections, _BATCH), arguments.seconds))
        for name, found in rates.items():
            subject = Subject(name, Path(), {"IN": _ITEM}, _BATCH, lambda _: None)
            rate = load.measure(
                served,
                subject,
                protocol=protocol,
                connections=connections,
                seconds=arguments.seconds,
            )
            found.append(rate.per_second)
    python, native = (statistics.median(rates[name]) for name in ("python", "native"))
    print(
        f"| {protocol} | {connections} | {python / statistics.median(bare):.2f} | "
        f"{python / native:.2f} | {python:.0f} |"
    )


def _in_process(batch: int, seconds: float) -> float:
    """Requests per second of the model's own code."""
    requests = [
        InferenceRequest(
            inputs=[Tensor("IN", _ITEM)], requested_output_names=["OUT"], model_name="python"
        )
        for _ in range(batch)
    ]
    count, began = 0, time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        for request in requests:
            InferenceResponse([Tensor("OUT", request.inputs()[0].as_numpy())])
        count += batch
    return count / (now - began)


if __name__ == "__main__":
    sys.exit(main())
