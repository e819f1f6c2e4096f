"""What is fuzzed: name → a call that takes any bytes and raises nothing but the faults that clients are told."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import hpack
from google.protobuf.message import DecodeError

from inference_runtime import pb
from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends import http1_head
from inference_runtime.frontends.hpack import HeaderDecoder, HpackFault
from inference_runtime.protocol import compression, generate_codec, http_codec, json_reader
from inference_runtime.protocol.admin_codec import read_load_parameters, read_unload_dependents
from inference_runtime.protocol.generate_codec import GenerateInput
from inference_runtime.protocol.grpc_codec import InferDecoder
from inference_runtime.protocol.request_heads import RequestHeads
from inference_runtime.repository.overrides import read_load_parameters as read_override
from inference_runtime.spec.config_text import config_from_json, config_from_text
from inference_runtime.spec.model_config import read
from inference_runtime.spec.tensors import BytesFramingError, count_bytes, split_bytes
from tests.fuzz.http1 import SEEDS as HTTP1_SEEDS, http1
from tests.fuzz.http2 import SEEDS as HTTP2_SEEDS, http2
from tests.hostile.wire.test_h2_noise import BLOCKS

LIMIT = 1 << 20
_INPUTS = {
    "PROMPT": GenerateInput("PROMPT", "BYTES", (-1, 1)),
    "N": GenerateInput("N", "INT32", (-1, 4)),
    "X": GenerateInput("X", "FP32", (-1,)),
}


@dataclass(frozen=True)
class Target:
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def http_head(data: bytes) -> None:
    with contextlib.suppress(http1_head.HeadFault):
        http1_head.parse(data)


def http_infer(data: bytes) -> None:
    try:
        document = json_reader.parse(data)
        infer = http_codec.decode_infer(document, ("m", ""), RequestHeads(), LIMIT)
        http_codec.split_binary(infer, len(data))
    except RuntimeFault:
        pass


def generate(data: bytes) -> None:
    with contextlib.suppress(RuntimeFault):
        generate_codec.decode(data, model_name="m", version="", inputs=_INPUTS, limit=LIMIT)


def load_parameters(data: bytes) -> None:
    try:
        read_override(read_load_parameters(data))
        read_unload_dependents(data)
    except RuntimeFault:
        pass


def grpc_infer(data: bytes) -> None:
    decoder = InferDecoder()
    try:
        plan, _, _ = decoder.decode(data, 0, len(data), None)
        # What is remembered reads the same bytes to the same end.
        again, _, _ = decoder.decode(data, 0, len(data), plan)
        assert again.head.inputs == plan.head.inputs or again is plan
    except (RuntimeFault, DecodeError):
        pass


def header_block(data: bytes) -> None:
    """Ours reads what the `hpack` package reads, and refuses what that refuses, limits aside."""
    ours, oracle = HeaderDecoder(1 << 16), hpack.Decoder(max_header_list_size=1 << 16)
    try:
        fields = ours.decode(data)
    except HpackFault:
        return
    try:
        expected = oracle.decode(data, raw=True)
    except hpack.OversizedHeaderListError:
        return
    except hpack.HPACKError:
        # The oracle is stricter in places; what we take is never more than it can make sense of.
        return
    if fields is not None:
        assert [tuple(field) for field in fields] == [(bytes(n), bytes(v)) for n, v in expected]


def config_text(data: bytes) -> None:
    # A datatype that is none is found by the config's rules, not here.
    with contextlib.suppress(RuntimeFault, KeyError):
        read(config_from_text(data.decode("utf-8", "replace")))


def config_json(data: bytes) -> None:
    with contextlib.suppress(RuntimeFault):
        config_from_json(data.decode("utf-8", "replace"))


def strings(data: bytes) -> None:
    try:
        elements = split_bytes(data)
    except BytesFramingError:
        return
    assert count_bytes(data, len(elements)) == len(elements)


def inflated(data: bytes) -> None:
    with contextlib.suppress(RuntimeFault, compression.TooLarge):
        assert len(compression.inflate(data, 1000)) <= 1000


_JSON = (
    b'{"id":"7","parameters":{"priority":1,"sequence_id":"s","x":1.5},"inputs":[{"name":"INPUT0",'
    b'"shape":[1,2],"datatype":"INT32","data":[[1,2]]},{"name":"B","shape":[1],"datatype":"BYTES",'
    b'"parameters":{"binary_data_size":8}}],"outputs":[{"name":"O","parameters":{"classification":2}}]}'
)
# Found by the fuzzer: a string without an end, which once took seconds to be refused.
_ENDLESS = (
    b'{"P:true}:' + b"\xff" * 40 + b"}",
    b'{"a":"' + b"x" * 100_000,
    b'{"a":' + b'"\\' * 50_000,
    b'{"a":"' + b'\\"' * 50_000,
)
_PROTO = pb.ModelInferRequest(
    model_name="m",
    id="1",
    inputs=[
        pb.ModelInferRequest.InferInputTensor(name="INPUT0", datatype="INT32", shape=[1, 2]),
        pb.ModelInferRequest.InferInputTensor(name="B", datatype="BYTES", shape=[1]),
    ],
    raw_input_contents=[b"12345678", b"\x01\x00\x00\x00a"],
).SerializeToString()
# Found by the fuzzer: shapes that no message can hold.
_VAST = pb.ModelInferRequest(
    inputs=[
        pb.ModelInferRequest.InferInputTensor(name=name, datatype="INT32", shape=[2**40, 3])
        for name in ("A", "B")
    ],
    raw_input_contents=[b"123", b"45"],
).SerializeToString()
_CONFIG = (
    b'name: "m" backend: "onnxruntime" max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 '
    b"dims: [-1] reshape { shape: [1, -1] } } dynamic_batching { preferred_batch_size: [2] } "
    b"instance_group { count: 2 kind: KIND_CPU } version_policy { latest { num_versions: 2 } }"
)

TARGETS: dict[str, Target] = {
    "http_head": Target(
        http_head,
        (
            b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n",
            b"GET / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
    ),
    "http_infer": Target(http_infer, (_JSON, *_ENDLESS)),
    "generate": Target(
        generate,
        (
            *_ENDLESS,
            b'{"PROMPT":"a","N":[1,2,3,4],"parameters":{"X":1},"k":true}',
        ),
    ),
    "load_parameters": Target(
        load_parameters,
        (b'{"parameters":{"config":"{}","file:1/model.onnx":"YWJj","unload_dependents":true}}',),
    ),
    "grpc_infer": Target(grpc_infer, (_PROTO, _VAST)),
    "header_block": Target(header_block, tuple(BLOCKS)),
    "http1": Target(http1, HTTP1_SEEDS),
    "http2": Target(http2, HTTP2_SEEDS),
    "config_text": Target(
        config_text, (_CONFIG, b'input { name: "x" data_type: ' + b"6" * 60 + b" }")
    ),
    "config_json": Target(
        config_json, (b'{"name":"m","max_batch_size":4,"input":[{"dims":["1"]}]}',)
    ),
    "strings": Target(strings, (b"\x01\x00\x00\x00a\x00\x00\x00\x00",)),
    "inflated": Target(inflated, (compression.deflate(b"abc" * 50, "gzip"),)),
}
