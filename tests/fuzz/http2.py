"""A connection of HTTP/2 with every method of gRPC behind it, fed with any bytes."""

import asyncio

import hpack

from inference_runtime import pb
from tests.fuzz import quiet_loop
from tests.hostile.wire.raw_h2 import INFER, PREFACE, frame, grpc_frame, message
from tests.hostile.wire.test_h2_noise import BLOCKS, Wire, block

_TURNS = 10
_REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


def http2(data: bytes) -> None:
    """Any bytes behind a good preface, in pieces; nothing may stay behind."""

    async def run() -> None:
        wire = Wire()
        size = 1 + (data[0] if data else 0)
        text = PREFACE + frame(4, 0, 0) + data[1:]
        for start in range(0, len(text), size):
            wire.connection.data_received(text[start : start + size])
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        wire.leave()
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    quiet_loop.run(run)


def _call(path: str, body: bytes, stream: int = 1) -> bytes:
    return frame(1, 4, stream, block(path)) + frame(0, 1, stream, grpc_frame(body))


def _seeds() -> tuple[bytes, ...]:
    load = pb.RepositoryModelLoadRequest(model_name="m")
    load.parameters["config"].string_param = "{}"
    load.parameters["file:1/model.onnx"].bytes_param = b"abc"
    trace = pb.TraceSettingRequest()
    trace.settings["trace_rate"].value.append("1")
    log = pb.LogSettingsRequest()
    log.settings["log_verbose_level"].uint32_param = 0
    region = pb.SystemSharedMemoryRegisterRequest(name="r", key="/k", byte_size=8)
    calls = {
        "ModelReady": pb.ModelReadyRequest(name="ident", version="1"),
        "ModelConfig": pb.ModelConfigRequest(name="ident"),
        "RepositoryIndex": pb.RepositoryIndexRequest(ready=True),
        "RepositoryModelLoad": load,
        "TraceSetting": trace,
        "LogSettings": log,
        "SystemSharedMemoryRegister": region,
    }
    service = INFER.rsplit("/", 1)[0]
    return (
        b"\x10" + frame(1, 4, 1, hpack.Encoder().encode([(":path", INFER)])),
        b"\xff" + frame(1, 4, 1, BLOCKS[0]) + frame(0, 1, 1, message()),
        b"\x05" + frame(1, 0, 1, BLOCKS[1][:9]) + frame(9, 4, 1, BLOCKS[1][9:]),
        b"\xff" + _call(_REFLECTION, b"\x3a\x01x") + _call(_REFLECTION, b"\x22\x01x", 3),
        b"\xff" + _call("/grpc.health.v1.Health/Check", b"\x0a\x01x"),
        *(
            b"\xff" + _call(f"{service}/{name}", request.SerializeToString())
            for name, request in calls.items()
        ),
    )


SEEDS = _seeds()
