"""`python -m bench.probe`: the least that one Python process can do to serve a model.

One process, one loop, requests read in one turn run together in it: the runtime's own architecture
without everything else. Nothing is validated, counted, timed out or bounded, and errors end the
connection. It is a measuring stick: what the runtime costs on top is what its promises cost.
"""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
import orjson
import uvloop
from tritonclient.grpc import service_pb2

from bench.probe_http2 import Http2

_BATCH: Final = 32
_JSON_SIZE: Final = b"inference-header-content-length"
_WIRE: Final = {"tensor(int32)": ("INT32", np.int32), "tensor(float)": ("FP32", np.float32)}
Reply = Callable[[Any, "Model", Sequence[Any]], None]


class Model:
    """A session, the answer's bytes up to its tensors, and the requests of this turn."""

    def __init__(self, name: str, file: Path, loop: asyncio.AbstractEventLoop) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        self.name = name
        self.served = 0
        self._run = session.run
        self._loop = loop
        self._waiting: list[tuple[list[bytes], Reply, Any]] = []
        self.inputs = [
            (port.name, _WIRE[port.type][1], tuple(port.shape[1:])) for port in session.get_inputs()
        ]
        self.input_sizes = [4 * int(np.prod(shape)) for _, _, shape in self.inputs]
        outputs = session.get_outputs()
        self._names = [port.name for port in outputs]
        sizes = [4 * int(np.prod(port.shape[1:])) for port in outputs]
        self._prepare(outputs, sizes)

    def _prepare(self, outputs: Sequence[Any], sizes: Sequence[int]) -> None:
        entries = []
        message = service_pb2.ModelInferResponse(model_name=self.name, model_version="1")
        for port, size in zip(outputs, sizes, strict=True):
            datatype, shape = _WIRE[port.type][0], [1, *port.shape[1:]]
            message.outputs.add(name=port.name, datatype=datatype).shape.extend(shape)
            entries.append(
                {"name": port.name, "datatype": datatype, "shape": shape,
                 "parameters": {"binary_data_size": size}}
            )  # fmt: skip
        head = {"model_name": self.name, "model_version": "1", "outputs": entries}
        document = orjson.dumps(head)
        self.http_head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
            b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n%b"
            % (len(document), len(document) + sum(sizes), document)
        )
        self.grpc_head = message.SerializeToString()
        self.grpc_marks = [b"\x32" + varint(size) for size in sizes]

    def submit(self, tensors: list[bytes], reply: Reply, whom: Any) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append((tensors, reply, whom))

    def _flush(self) -> None:
        batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
        if self._waiting:
            self._loop.call_soon(self._flush)
        count = len(batch)
        feed = {}
        for index, (name, kind, shape) in enumerate(self.inputs):
            joined = b"".join([tensors[index] for tensors, _, _ in batch])
            feed[name] = np.frombuffer(joined, kind).reshape((count, *shape))
        columns = []
        for array in self._run(self._names, feed):
            view = memoryview(array.reshape(-1).view(np.uint8))
            size = array.nbytes // count
            columns.append([view[start : start + size] for start in range(0, len(view), size)])
        self.served += count
        for (_, reply, whom), data in zip(batch, zip(*columns, strict=True), strict=True):
            reply(whom, self, data)


class Requests:
    """What both ports remember: heads, JSON documents and protobuf prefixes that came before."""

    def __init__(self, models: dict[str, Model]) -> None:
        self._models = models
        self.heads: dict[bytes, tuple[Model | None, int, int]] = {}
        self.documents: dict[bytes, list[tuple[int, int]]] = {}
        self._prefixes: list[tuple[bytes, Model, list[bytes]]] = []

    def head(self, raw: bytes) -> tuple[Model | None, int, int]:
        first, *lines = raw.split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines)
        path = first.split(b" ")[1].decode()
        model = self._models.get(path.split("/")[3]) if path.startswith("/v2/models/") else None
        size = int(fields.get(b"content-length", 0))
        found = self.heads[raw] = (model, size, int(fields.get(_JSON_SIZE, 0)))
        return found

    def spans(self, document: bytes) -> list[tuple[int, int]]:
        position = 0
        spans = []
        for entry in orjson.loads(document)["inputs"]:
            size = entry["parameters"]["binary_data_size"]
            spans.append((position, position + size))
            position += size
        self.documents[document] = spans
        return spans

    def counts(self) -> bytes:
        return orjson.dumps({name: model.served for name, model in self._models.items()})

    def message(self, connection: Http2, stream: int, message: bytes) -> None:
        for prefix, model, marks in self._prefixes:
            if message.startswith(prefix):
                position = len(prefix)
                tensors = []
                for mark, size in zip(marks, model.input_sizes, strict=True):
                    if not message.startswith(mark, position):
                        break
                    position += len(mark) + size
                    tensors.append(message[position - size : position])
                if position == len(message) and len(tensors) == len(marks):
                    model.submit(tensors, grpc_reply, (connection, stream))
                    return
        request = service_pb2.ModelInferRequest.FromString(message)
        model = self._models[request.model_name]
        tensors = list(request.raw_input_contents)
        request.ClearField("raw_input_contents")
        prefix = request.SerializeToString()
        if message.startswith(prefix):
            marks = [b"\x3a" + varint(size) for size in model.input_sizes]
            self._prefixes.append((prefix, model, marks))
        model.submit(tensors, grpc_reply, (connection, stream))


class Http(asyncio.Protocol):
    """Keep-alive requests, one at a time; a body may come in pieces."""

    __slots__ = ("_requests", "_rest", "_transport")

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._rest = b""
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        requests = self._requests
        if self._rest:
            data, self._rest = self._rest + data, b""
        mark = data.find(b"\r\n\r\n")
        if mark < 0:
            self._rest = data
            return
        raw = data[:mark]
        model, size, json_size = requests.heads.get(raw) or requests.head(raw)
        start = mark + 4
        if len(data) < start + size:
            self._rest = data
            return
        if model is None:
            body = requests.counts()
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            return
        base = start + json_size
        document = data[start:base]
        spans = requests.documents.get(document) or requests.spans(document)
        tensors = [data[base + first : base + last] for first, last in spans]
        model.submit(tensors, http_reply, self._transport)


def http_reply(transport: Any, model: Model, data: Sequence[Any]) -> None:
    if not transport.is_closing():
        transport.write(b"".join((model.http_head, *data)))


def grpc_reply(whom: tuple[Http2, int], model: Model, data: Sequence[Any]) -> None:
    connection, stream = whom
    parts = [model.grpc_head]
    for mark, tensor in zip(model.grpc_marks, data, strict=True):
        parts += (mark, tensor)
    connection.reply(stream, b"".join(parts))


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


async def _serve(files: Sequence[str], http_port: int, grpc_port: int) -> None:
    loop = asyncio.get_running_loop()
    models = {Path(file).stem: Model(Path(file).stem, Path(file), loop) for file in files}
    requests = Requests(models)
    await loop.create_server(lambda: Http(requests), "127.0.0.1", http_port, backlog=512)
    await loop.create_server(lambda: Http2(requests.message), "127.0.0.1", grpc_port, backlog=512)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.probe", description=__doc__)
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--grpc-port", type=int, required=True)
    parser.add_argument("files", nargs="+", help="ONNX files; their stems are the models' names")
    arguments = parser.parse_args()
    uvloop.run(_serve(arguments.files, arguments.http_port, arguments.grpc_port))


if __name__ == "__main__":
    main()
