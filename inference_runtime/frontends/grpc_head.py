"""A gRPC call's headers, read once per distinct list: which method, which deadline, which encoding."""

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from inference_runtime.frontends.grpc_messages import ENCODINGS, CallFault, unsupported_encoding
from inference_runtime.frontends.h2_headers import well_formed
from inference_runtime.frontends.h2_stream import H2Stream, OnData
from inference_runtime.frontends.hpack import Field
from inference_runtime.frontends.restrictions import Restrictions, grpc_category
from inference_runtime.protocol.error_codec import (
    GRPC_INTERNAL,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_UNAVAILABLE,
    GRPC_UNIMPLEMENTED,
)
from inference_runtime.protocol.memo import Memo

_HEADS: Final = 4096
_HEADS_BYTES: Final = 16 << 20
_RESTRICTED: Final = "This protocol is restricted, expecting header '%s'"
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_LONGEST_NS: Final = (
    1 << 62
)  # with the clock added it still fits into 64 bits, which others count in
_UNIT_NS: Final = {
    b"H": 3_600_000_000_000,
    b"M": 60_000_000_000,
    b"S": 1_000_000_000,
    b"m": 1_000_000,
    b"u": 1_000,
    b"n": 1,
}


class Method(Protocol):
    """What serves the streams of one path. `patient`: its streams may stay open in silence."""

    patient: bool

    def data(self, stream: H2Stream, buffer: bytes, start: int, stop: int, last: int) -> None: ...
    def reset(self, stream: H2Stream) -> None: ...
    def drained(self, stream: H2Stream) -> None: ...


class CallHead:
    """Shared by all calls with the same headers. `fault` is what every such call is answered with;
    `http_status`, when not 200, says that it is no gRPC at all."""

    __slots__ = (
        "accepts",
        "content_length",
        "encoding",
        "fault",
        "http_status",
        "malformed",
        "metadata",
        "on_data",
        "on_drained",
        "on_reset",
        "patient",
        "timeout_ns",
    )

    def __init__(self, method: Method, metadata: Mapping[str, str]) -> None:
        self.on_data: OnData = method.data
        self.on_reset: Callable[[H2Stream], None] = method.reset
        self.on_drained: Callable[[H2Stream], None] = method.drained
        self.patient = method.patient
        self.metadata = metadata
        self.malformed = False
        self.content_length = -1
        self.http_status = 200
        self.fault: CallFault | None = None
        self.timeout_ns = 0
        self.encoding = ""
        self.accepts = ""


class CallHeads:
    """Makes heads. `refuse` is the method that answers calls whose head has a fault."""

    __slots__ = ("_memo", "_methods", "_refuse", "_required")

    def __init__(
        self,
        methods: Mapping[bytes, Method],
        refuse: Method,
        restrictions: Restrictions | None = None,
    ) -> None:
        self._methods = methods
        self._refuse = refuse
        by_category = restrictions or {}
        self._required = {path: by_category.get(grpc_category(path)) for path in methods}
        self._memo: Memo[tuple[Field, ...], CallHead] = Memo(
            limit_count=_HEADS, limit_bytes=_HEADS_BYTES
        )

    def describe(self, fields: list[Field] | None) -> CallHead:
        if fields is None:
            return self._faulty({}, CallFault(GRPC_RESOURCE_EXHAUSTED, "too much metadata"))
        key = tuple(fields)
        head = self._memo.get(key)
        if head is None:
            head = self._read(fields)
            self._memo.put(key, head, sum(len(name) + len(value) for name, value in fields))
        return head

    def _faulty(
        self, metadata: Mapping[str, str], fault: CallFault | None, http_status: int = 200
    ) -> CallHead:
        head = CallHead(self._refuse, metadata)
        head.fault = fault
        head.http_status = http_status
        return head

    def _read(self, fields: list[Field]) -> CallHead:
        if not well_formed(fields) or not _one_length(fields):
            head = self._faulty({}, None)
            head.malformed = True
            return head
        values: dict[bytes, bytes] = {}
        for name, value in fields:
            values[name] = values[name] + b"," + value if name in values else value
        head = self._of_method(values)
        length = values.get(b"content-length")
        head.content_length = int(length) if length is not None else -1
        return head

    def _of_method(self, values: dict[bytes, bytes]) -> CallHead:
        metadata = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in values.items()
        }
        if values[b":method"] != b"POST":
            return self._faulty(metadata, None, 405)
        if not _is_grpc(values.get(b"content-type", b"")):
            return self._faulty(metadata, None, 415)
        method = self._methods.get(values[b":path"])
        if method is None:
            return self._faulty(metadata, _unknown(metadata[":path"]))
        required = self._required[values[b":path"]]
        if required is not None and not required.given_in(metadata):
            return self._faulty(metadata, CallFault(GRPC_UNAVAILABLE, _RESTRICTED % required.name))
        head = CallHead(method, metadata)
        head.accepts = metadata.get("grpc-accept-encoding", "")
        head.encoding = metadata.get("grpc-encoding", "")
        if head.encoding not in ENCODINGS:
            return self._faulty(metadata, unsupported_encoding(head.encoding))
        timeout = values.get(b"grpc-timeout")
        if timeout is not None:
            match = _TIMEOUT.fullmatch(timeout)
            if match is None:
                return self._faulty(metadata, CallFault(GRPC_INTERNAL, "malformed grpc-timeout"))
            head.timeout_ns = min(max(int(match[1]) * _UNIT_NS[match[2]], 1), _LONGEST_NS)
        return head


def _unknown(path: str) -> CallFault:
    return CallFault(GRPC_UNIMPLEMENTED, f"Method {path[:200]} is not implemented by this server")


def _is_grpc(content_type: bytes) -> bool:
    base = b"application/grpc"
    return content_type.startswith(base) and content_type[len(base) : len(base) + 1] in (
        b"",
        b"+",
        b";",
    )


def _one_length(fields: list[Field]) -> bool:
    lengths = [value for name, value in fields if name == b"content-length"]
    return len(lengths) <= 1 and all(value.isdigit() and len(value) < 20 for value in lengths)
