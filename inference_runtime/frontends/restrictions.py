"""Restricted APIs: which categories of calls want a header, and which category a call is of."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

CATEGORIES: Final = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)
GRPC_PREFIX: Final = "triton-grpc-protocol-"


@dataclass(frozen=True, slots=True)
class RequiredHeader:
    name: str
    value: str

    def given_in(self, headers: Mapping[str, str]) -> bool:
        """`headers` has its names in lower case."""
        found = headers.get(self.name.lower(), "")
        return hmac.compare_digest(found.encode("latin-1", "replace"), self.value.encode())


Restrictions = Mapping[str, RequiredHeader]  # by category

# By the last segment of a path below /v2/models; what is not here is a model's metadata.
_OF_A_MODEL: Final = {
    "ready": "health",
    "config": "model-config",
    "stats": "statistics",
    "infer": "inference",
    "generate": "inference",
    "generate_stream": "inference",
    "setting": "trace",
}
_BY_FIRST: Final = {
    "health": "health",
    "repository": "model-repository",
    "systemsharedmemory": "shared-memory",
    "cudasharedmemory": "shared-memory",
    "trace": "trace",
    "logging": "logging",
}
# Ours: who may say which models there are may say who gets their traffic.
_SWITCHYARD: Final = {
    "traffic": "model-repository",
    "slots": "model-repository",
    "statistics": "statistics",
}
_GRPC: Final = {
    b"ServerLive": "health",
    b"ServerReady": "health",
    b"ModelReady": "health",
    b"Check": "health",
    b"ServerMetadata": "metadata",
    b"ModelMetadata": "metadata",
    b"ModelInfer": "inference",
    b"ModelStreamInfer": "inference",
    b"ModelConfig": "model-config",
    b"ModelStatistics": "statistics",
    b"TraceSetting": "trace",
    b"LogSettings": "logging",
}


def http_category(path: Sequence[str]) -> str:
    """Of a path of the route table, in segments."""
    parts = [part for part in path[1:] if not part.startswith("{")]
    if path[0] != "v2":
        return ""
    if not parts:
        return "metadata"
    if parts[0] == "models":
        return _OF_A_MODEL.get(parts[-1], "metadata")
    if parts[0] == "switchyard":
        return _SWITCHYARD[parts[1]]
    return _BY_FIRST[parts[0]]


def grpc_category(path: bytes) -> str:
    name = path.rpartition(b"/")[2]
    if name.startswith(b"Repository"):
        return "model-repository"
    if b"SharedMemory" in name:
        return "shared-memory"
    return _GRPC.get(name, "")
