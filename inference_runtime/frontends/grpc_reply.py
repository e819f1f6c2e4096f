"""What a gRPC call is answered with: header blocks, trailers, and both around a message."""

from collections.abc import Sequence
from typing import Final

from inference_runtime.frontends.grpc_messages import framed
from inference_runtime.frontends.h2_stream import H2Stream
from inference_runtime.frontends.hpack import indexed, literal
from inference_runtime.protocol import error_codec
from inference_runtime.protocol.memo import Memo
from inference_runtime.spec.messages import Bytes

_STATUS_200: Final = 8  # in HPACK's static table
HEADERS: Final = indexed(_STATUS_200) + literal(b"content-type", b"application/grpc")
GZIP: Final = literal(b"grpc-encoding", b"gzip")
OK: Final = literal(b"grpc-status", b"0")
_ACCEPTED: Final = literal(b"grpc-accept-encoding", b"identity, deflate, gzip")

_blocks: Memo[tuple[str, str], bytes] = Memo(limit_count=1024)


def infer_headers(version: str, arm: str) -> bytes:
    """Initial metadata of an inference: which version answered, on which arm of the traffic."""
    block = _blocks.get((version, arm))
    if block is None:
        block = HEADERS + literal(b"x-model-version", version.encode())
        if arm:
            block += literal(b"x-rollout-arm", arm.encode())
        _blocks.put((version, arm), block)
    return block


def trailers(status: int, text: str) -> bytes:
    block = literal(b"grpc-status", b"%d" % status)
    if text:
        block += literal(b"grpc-message", error_codec.grpc_message(text))
    return block


def unary(stream: H2Stream, headers: bytes, parts: Sequence[Bytes]) -> None:
    """Headers, one message, OK."""
    output = stream.connection.output
    output.headers(stream, headers, last=False)
    output.data(stream, framed(parts))
    output.end(stream, OK)


def refuse(stream: H2Stream, status: int, text: str, headers: bytes = HEADERS) -> None:
    """A call that is answered by its trailers only."""
    extra = _ACCEPTED if status == error_codec.GRPC_UNIMPLEMENTED else b""
    stream.connection.output.headers(stream, headers + extra + trailers(status, text), last=True)


def refuse_http(stream: H2Stream, status: int) -> None:
    """A request that is no gRPC."""
    block = literal(b":status", b"%d" % status)
    stream.connection.output.headers(stream, block, last=True)
