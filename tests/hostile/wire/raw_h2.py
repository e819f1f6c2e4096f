"""A gRPC client that sends whatever frames it is told to."""

import contextlib
import socket
import struct
import time
from typing import Any

import hpack
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

from inference_runtime import pb

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


def message(model="ident", elements=4, id_=""):
    request = pb.ModelInferRequest(model_name=model, id=id_)
    entry = request.inputs.add(name="INPUT0", datatype="FP32")
    entry.shape.extend([1, elements])
    request.raw_input_contents.append(bytes(4 * elements))
    return grpc_frame(request.SerializeToString())


def grpc_frame(body, flag=0):
    return bytes([flag]) + struct.pack(">I", len(body)) + body


def frame(kind, flags, stream_id, payload=b"", length=None):
    """A frame as raw as can be; `length` may lie."""
    size = len(payload) if length is None else length
    return (
        struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream_id) + payload
    )


class RawH2:
    def __init__(self, sock: socket.socket, *, start=True, settings=None):
        self.sock = sock
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.buffer = b""
        self.frames: list[Frame] = []
        self.next_stream = 1
        if start:
            first = SettingsFrame(0, settings=settings or {}).serialize()
            self.send(PREFACE + first)
            self.until(
                lambda: any(isinstance(f, SettingsFrame) and "ACK" in f.flags for f in self.frames)
            )

    def send(self, data):
        """What the server thinks of it shows in its answers, not in a broken pipe."""
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def headers(self, path=INFER, extra=(), drop=(), **changes):
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "h",
            "te": "trailers",
            "content-type": "application/grpc",
            **changes,
        }
        return [(key, value) for key, value in fields.items() if key not in drop] + list(extra)

    def open(self, fields=None, *, stream_id=None, flags=("END_HEADERS",), block=None):
        stream_id = stream_id or self.next_stream
        self.next_stream = max(self.next_stream, stream_id) + 2
        if block is None:
            block = self.encoder.encode(self.headers() if fields is None else fields)
        opening = HeadersFrame(stream_id, data=block, flags=flags)
        self.send(opening.serialize())
        return stream_id

    def data(self, stream_id, payload=None, *, end=True):
        piece = DataFrame(stream_id, data=message() if payload is None else payload)
        if end:
            piece.flags.add("END_STREAM")
        self.send(piece.serialize())

    def call(self, fields=None, payload=None):
        """One whole request; returns its status."""
        stream_id = self.open(fields)
        self.data(stream_id, payload)
        return self.status(stream_id)

    def status(self, stream_id):
        """grpc-status of the answer, or the code the stream was reset with as `reset 7`."""
        self.until(lambda: self.ended(stream_id))
        for found in self.of(stream_id):
            if isinstance(found, RstStreamFrame) and found.error_code:
                return f"reset {found.error_code}"
        return dict(self.fields(stream_id)).get("grpc-status")

    def of(self, stream_id):
        return [found for found in self.frames if found.stream_id == stream_id]

    def ended(self, stream_id):
        return any(
            "END_STREAM" in found.flags or isinstance(found, RstStreamFrame)
            for found in self.of(stream_id)
        )

    def fields(self, stream_id):
        """All headers and trailers of an answer."""
        return [
            pair
            for found in self.of(stream_id)
            if isinstance(found, HeadersFrame)
            for pair in self.decoder.decode(found.data)
        ]

    def body(self, stream_id):
        return b"".join(f.data for f in self.of(stream_id) if isinstance(f, DataFrame))

    def goaway(self):
        """The code the connection was ended with."""
        self.until(lambda: self.count(GoAwayFrame) > 0)
        return next(f.error_code for f in self.frames if isinstance(f, GoAwayFrame))

    def ping(self):
        """Returns when the server has read everything sent so far, or has closed."""
        before = self.count(PingFrame)
        self.send(PingFrame(0, opaque_data=b"raw-ping").serialize())
        self.until(lambda: self.count(PingFrame) > before or self.count(GoAwayFrame) > 0)

    def alive(self):
        self.ping()
        return not self.count(GoAwayFrame)

    def all(self, kind: Any) -> list[Any]:
        return [found for found in self.frames if isinstance(found, kind)]

    def count(self, kind):
        return sum(isinstance(found, kind) for found in self.frames)

    def until(self, holds):
        limit = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < limit, f"only got {self.frames}"
            if not self._read():
                assert holds(), f"closed after {self.frames}"

    def _read(self):
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionResetError:
            return False
        self.buffer += data
        while len(self.buffer) >= 9:
            found, length = Frame.parse_frame_header(memoryview(self.buffer[:9]))
            if len(self.buffer) < 9 + length:
                break
            found.parse_body(memoryview(self.buffer[9 : 9 + length]))
            self.frames.append(found)
            self.buffer = self.buffer[9 + length :]
        return bool(data)
