"""Registering and listing shared memory regions: JSON and protobuf."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import orjson

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import json_reader as read
from inference_runtime.shared_memory.cuda import HANDLE_SIZE
from inference_runtime.shared_memory.regions import Region, RegionKind
from inference_runtime.spec.messages import Bytes


def read_system(body: Bytes) -> tuple[str, int, int]:
    """(key, offset, byte size)."""
    document = read.parse_object(body)
    key = read.string(_field(document, "key"), "key")
    offset = read.unsigned(document.get("offset", 0), "offset")
    return key, offset, read.unsigned(_field(document, "byte_size"), "byte_size")


def read_cuda(body: Bytes) -> tuple[bytes, int, int]:
    """(IPC handle, device, byte size)."""
    document = read.parse_object(body)
    raw = read.mapping(_field(document, "raw_handle"), "raw_handle")
    handle = _handle(read.string(read.member(raw, "b64"), "b64"))
    device = read.unsigned(_field(document, "device_id"), "device_id")
    return handle, device, read.unsigned(_field(document, "byte_size"), "byte_size")


def check_handle(handle: bytes) -> bytes:
    if len(handle) != HANDLE_SIZE:
        raise InvalidArgument("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")
    return handle


def status_json(regions: Iterable[Region]) -> bytes:
    return orjson.dumps([_row(region) for region in regions])


def system_message(regions: Iterable[Region]) -> pb.SystemSharedMemoryStatusResponse:
    return _fill(pb.SystemSharedMemoryStatusResponse(), regions)


def cuda_message(regions: Iterable[Region]) -> pb.CudaSharedMemoryStatusResponse:
    return _fill(pb.CudaSharedMemoryStatusResponse(), regions)


def _fill(response: Any, regions: Iterable[Region]) -> Any:
    for region in regions:
        entry = response.regions[region.name]
        for key, value in _row(region).items():
            setattr(entry, key, value)
    return response


def _row(region: Region) -> dict[str, Any]:
    if region.kind is RegionKind.SYSTEM:
        place = {"key": region.key, "offset": region.offset}
    else:
        place = {"device_id": region.device_id}
    return {"name": region.name, **place, "byte_size": region.byte_size}


def _handle(text: str) -> bytes:
    try:
        return check_handle(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return check_handle(b"")


def _field(document: dict[str, Any], key: str) -> Any:
    if key not in document:
        raise InvalidArgument(f"Shared memory register request has no '{key}' field")
    return document[key]
