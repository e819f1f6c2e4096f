"""Load by h2load (Debian: nghttp2-client): a few microseconds of client per request."""

import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype

from bench.processes import ServerProcess
from bench.region import ItemRegion
from bench.served import verify_http
from bench.subjects import Subject

_JSON_SIZE = "Inference-Header-Content-Length"


class NoLoader(Exception):
    """h2load is not installed."""


@dataclass(frozen=True)
class Rate:
    per_second: float
    mean_ms: float
    cpu_us_per_request: float
    failed: int


def require_h2load() -> None:
    if shutil.which("h2load") is None:
        raise NoLoader("h2load is missing; install the Debian package nghttp2-client")


def grpc_body(subject: Subject, region: ItemRegion | None = None) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=subject.name)
    for name, array in subject.item.items():
        entry = request.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype))
        entry.shape.extend(array.shape)
        if region is None:
            request.raw_input_contents.append(np.ascontiguousarray(array).tobytes())
            continue
        entry.parameters["shared_memory_region"].string_param = region.name
        entry.parameters["shared_memory_offset"].int64_param = region.offsets[name]
        entry.parameters["shared_memory_byte_size"].int64_param = array.nbytes
    message = request.SerializeToString()
    return bytes(struct.pack(">BI", 0, len(message)) + message)


def http_body(subject: Subject, region: ItemRegion | None = None) -> tuple[bytes, int]:
    """The body in the binary extension's form, and the length of its JSON part."""
    head = {
        "inputs": [
            {
                "name": name,
                "datatype": np_to_triton_dtype(array.dtype),
                "shape": list(array.shape),
                "parameters": {"binary_data_size": array.nbytes}
                if region is None
                else {
                    "shared_memory_region": region.name,
                    "shared_memory_offset": region.offsets[name],
                    "shared_memory_byte_size": array.nbytes,
                },
            }
            for name, array in subject.item.items()
        ],
        "parameters": {"binary_data_output": True},
    }
    header = orjson.dumps(head)
    if region is not None:
        return header, len(header)
    raw = b"".join(np.ascontiguousarray(array).tobytes() for array in subject.item.values())
    return header + raw, len(header)


def json_body(subject: Subject) -> bytes:
    """All of it JSON: what a client without the binary extension sends."""
    inputs = [
        {
            "name": name,
            "datatype": np_to_triton_dtype(array.dtype),
            "shape": list(array.shape),
            "data": array.ravel().tolist(),
        }
        for name, array in subject.item.items()
    ]
    return orjson.dumps({"inputs": inputs})


def measure(
    served: ServerProcess,
    subject: Subject,
    *,
    protocol: str,
    connections: int,
    seconds: int,
    region: ItemRegion | None = None,
) -> Rate:
    """`protocol`: grpc, http (binary) or json. With `region` the inputs lie there, else in the request."""
    body, flags, url = _request(served, subject, protocol, region)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(body)
        before = served.counters(subject.name)
        before_cpu = served.cpu_seconds()
        done = subprocess.run(
            ["h2load", "-t1", f"-c{connections}", "-m1", f"-D{seconds}", "--warm-up-time=1",
             *flags, "-d", file.name, url],
            capture_output=True, text=True, check=True, timeout=seconds + 60,
        )  # fmt: skip
    cpu = served.cpu_seconds() - before_cpu
    after = served.counters(subject.name)
    per_second = _number(r"finished in [\d.]+s, ([\d.]+) req/s", done.stdout)
    # Where nobody counts, the warm-up is taken to be as fast as the rest.
    answered, failed = per_second * (seconds + 1), 0
    if before is not None and after is not None:
        answered, failed = after[0] - before[0], after[1] - before[1]
    return Rate(
        per_second=per_second,
        mean_ms=_mean_ms(done.stdout),
        cpu_us_per_request=1e6 * cpu / answered if answered else float("nan"),
        failed=failed + _bad_statuses(done.stdout),
    )


def verify_load(served: ServerProcess, subject: Subject, protocol: str) -> None:
    """Judges the answer to the very request that `measure` sends over HTTP."""
    if protocol == "json":
        verify_http(served, subject, json_body(subject), {})
    else:
        body, size = http_body(subject)
        verify_http(served, subject, body, {_JSON_SIZE: str(size)})


def _request(
    served: ServerProcess, subject: Subject, protocol: str, region: ItemRegion | None
) -> tuple[bytes, list[str], str]:
    if protocol == "grpc":
        url = f"http://{served.grpc_address}/inference.GRPCInferenceService/ModelInfer"
        flags = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        return grpc_body(subject, region), flags, url
    url = f"http://127.0.0.1:{served.http_port}/v2/models/{subject.name}/infer"
    if protocol == "json":
        return json_body(subject), ["--h1"], url
    body, size = http_body(subject, region)
    return body, ["--h1", "-H", f"{_JSON_SIZE}: {size}"], url


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"h2load said:\n{text}")
    return float(found.group(1))


def _bad_statuses(text: str) -> int:
    return sum(int(n) for n in re.findall(r"(\d+) [345]xx", text))


def _mean_ms(text: str) -> float:
    """h2load's own mean time for a request; its line reads min, max, mean, sd, within one sd."""
    found = re.search(r"time for request:\s+\S+\s+\S+\s+([\d.]+)(us|ms|s)", text)
    if found is None:
        return float("nan")
    return float(found.group(1)) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[found.group(2)]
