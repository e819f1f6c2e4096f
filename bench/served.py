"""The runtime as users start it, with one repository of the subjects; and the bare probe beside it."""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import tritonclient.grpc as triton
import urllib3
from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

from bench.processes import Ports, ServerProcess, listens, running
from bench.subjects import Subject


class Served(ServerProcess):
    def counters(self, model: str) -> tuple[int, int]:
        """Successful and failed requests so far. What the loader itself cut off is no failure."""
        url = f"http://127.0.0.1:{self.http_port}/v2/switchyard/statistics"
        body = urllib3.request("GET", url, timeout=10).json()
        arms = [arm for entry in body["models"] if entry["model"] == model for arm in entry["arms"]]
        failed = ("failures", "client_faults", "rejections", "timeouts")
        return (
            sum(arm["successes"] for arm in arms),
            sum(arm[kind] for arm in arms for kind in failed),
        )


class Probe(ServerProcess):
    def counters(self, model: str) -> tuple[int, int]:
        url = f"http://127.0.0.1:{self.http_port}/counts"
        return urllib3.request("GET", url, timeout=10).json()[model], 0


def write_repository(folder: Path, subjects: Sequence[Subject]) -> None:
    for subject in subjects:
        version = folder / subject.name / "1"
        version.mkdir(parents=True)
        shutil.copy(subject.file, version / "model.onnx")
        (folder / subject.name / "config.pbtxt").write_text(subject.config)


@contextmanager
def serve(repository: Path, *options: str) -> Iterator[Served]:
    def command(ports: Ports) -> list[str]:
        return [
            sys.executable, "-m", "inference_runtime", f"--model-repository={repository}",
            f"--http-port={ports.http}", f"--grpc-port={ports.grpc}",
            f"--metrics-port={ports.metrics}",
            "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", *options,
        ]  # fmt: skip

    with running(command, _is_ready) as process:
        yield Served(process.pid, process.http_port, process.grpc_port)


@contextmanager
def serve_probe(files: Sequence[Path]) -> Iterator[Probe]:
    def command(ports: Ports) -> list[str]:
        return [
            sys.executable, "-m", "bench.probe", f"--http-port={ports.http}",
            f"--grpc-port={ports.grpc}", *map(str, files),
        ]  # fmt: skip

    with running(command, lambda ports: listens(ports.grpc)) as process:
        yield Probe(process.pid, process.http_port, process.grpc_port)


def verify(server: ServerProcess, subject: Subject) -> None:
    """One real answer, judged, before any load: h2load does not look at answers."""
    client = triton.InferenceServerClient(server.grpc_address)
    inputs = []
    for name, array in subject.item.items():
        entry = triton.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        entry.set_data_from_numpy(np.ascontiguousarray(array))
        inputs.append(entry)
    result = client.infer(subject.name, inputs)
    outputs: dict[str, Any] = {
        o.name: result.as_numpy(o.name) for o in result.get_response().outputs
    }
    subject.check(outputs)
    client.close()


def verify_http(
    server: ServerProcess, subject: Subject, body: bytes, headers: Mapping[str, str]
) -> None:
    """The same for the very body that the load consists of, binary or JSON."""
    url = f"http://127.0.0.1:{server.http_port}/v2/models/{subject.name}/infer"
    answer = urllib3.request("POST", url, body=body, headers=dict(headers), timeout=30)
    if answer.status != 200:
        raise RuntimeError(f"{subject.name} answered {answer.status}: {answer.data[:500]!r}")
    size = int(answer.headers.get("Inference-Header-Content-Length", len(answer.data)))
    position, outputs = size, {}
    for entry in orjson.loads(answer.data[:size])["outputs"]:
        kind = triton_to_np_dtype(entry["datatype"])
        if "data" in entry:
            array = np.array(entry["data"], kind)
        else:
            length = entry["parameters"]["binary_data_size"]
            array = np.frombuffer(answer.data[position : position + length], kind)
            position += length
        outputs[entry["name"]] = array.reshape(entry["shape"])
    subject.check(outputs)


def _is_ready(ports: Ports) -> bool:
    client = triton.InferenceServerClient(f"127.0.0.1:{ports.grpc}")
    try:
        return bool(client.is_server_ready(client_timeout=2))
    except triton.InferenceServerException:
        return False
    finally:
        client.close()
