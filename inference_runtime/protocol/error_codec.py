"""How a fault looks on the wire: HTTP status and body, gRPC status and message."""

from typing import Final
from urllib.parse import quote_from_bytes

import orjson

from inference_runtime.errors import FaultCode, RuntimeFault

HTTP_STATUS: Final[dict[FaultCode, int]] = {
    FaultCode.UNKNOWN: 400,
    FaultCode.INTERNAL: 500,
    FaultCode.NOT_FOUND: 404,
    FaultCode.INVALID_ARG: 400,
    FaultCode.UNAVAILABLE: 503,
    FaultCode.UNSUPPORTED: 501,
    FaultCode.ALREADY_EXISTS: 400,
    FaultCode.CANCELLED: 400,
    FaultCode.DEADLINE: 503,
    FaultCode.DENIED: 403,
}

GRPC_OK: Final = 0
GRPC_CANCELLED: Final = 1
GRPC_INVALID_ARGUMENT: Final = 3
GRPC_DEADLINE_EXCEEDED: Final = 4
GRPC_RESOURCE_EXHAUSTED: Final = 8
GRPC_UNIMPLEMENTED: Final = 12
GRPC_INTERNAL: Final = 13
GRPC_UNAVAILABLE: Final = 14

GRPC_STATUS: Final[dict[FaultCode, int]] = {
    FaultCode.UNKNOWN: 2,
    FaultCode.INTERNAL: GRPC_INTERNAL,
    FaultCode.NOT_FOUND: 5,
    FaultCode.INVALID_ARG: GRPC_INVALID_ARGUMENT,
    FaultCode.UNAVAILABLE: GRPC_UNAVAILABLE,
    FaultCode.UNSUPPORTED: GRPC_UNIMPLEMENTED,
    FaultCode.ALREADY_EXISTS: 6,
    FaultCode.CANCELLED: GRPC_CANCELLED,
    FaultCode.DEADLINE: GRPC_DEADLINE_EXCEEDED,
    FaultCode.DENIED: GRPC_UNAVAILABLE,
}

# Common gRPC clients refuse metadata of more than 8 KiB, and a percent-encoded byte takes three.
_GRPC_MESSAGE_LIMIT: Final = 4096
# Printable ASCII stays as it is, the percent sign excepted (gRPC over HTTP/2, "Status-Message").
_GRPC_SAFE: Final = bytes(code for code in range(0x20, 0x7F) if code != 0x25)


def http_status(fault: RuntimeFault) -> int:
    return HTTP_STATUS[fault.code]


def http_body(text: str) -> bytes:
    """`{"error":"…"}`, whatever the text holds."""
    return orjson.dumps({"error": text.encode("utf-8", "replace").decode()})


def grpc_status(fault: RuntimeFault) -> int:
    return GRPC_STATUS[fault.code]


def grpc_message(text: str) -> bytes:
    """Percent-encoded, shortened to what a client's header limit leaves room for."""
    encoded = quote_from_bytes(text.encode("utf-8", "replace"), safe=_GRPC_SAFE).encode()
    if len(encoded) <= _GRPC_MESSAGE_LIMIT:
        return encoded
    cut = encoded[:_GRPC_MESSAGE_LIMIT]
    return cut[: cut.rfind(b"%")] if b"%" in cut[-2:] else cut
