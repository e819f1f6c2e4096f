"""Faults that cross from an isolated backend to the server: class and text."""

from typing import Any

from inference_runtime.backends.request_fault import RequestFault
from inference_runtime.errors import (
    Internal,
    InvalidArgument,
    NotFound,
    RuntimeFault,
    Unavailable,
    Unsupported,
)

_KINDS: dict[str, type[RuntimeFault]] = {
    kind.__name__: kind
    for kind in (RequestFault, Internal, InvalidArgument, NotFound, Unavailable, Unsupported)
}


def fault_text(error: Exception) -> dict[str, Any]:
    if isinstance(error, RuntimeFault):
        return {"kind": type(error).__name__, "text": error.text, "code": error.code.name}
    return {"kind": "Internal", "text": f"{type(error).__name__}: {error}", "code": "INTERNAL"}


def fault_from(text: Any) -> RuntimeFault:
    return _KINDS.get(text["kind"], Internal)(str(text["text"]))
