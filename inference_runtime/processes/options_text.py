"""The options of front ends as JSON values and back: how a process that serves one is told them."""

from dataclasses import asdict, replace
from typing import Any

from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.h2_limits import H2Limits
from inference_runtime.frontends.h2_watch import H2Timeouts
from inference_runtime.frontends.header_forwarding import HeaderPattern
from inference_runtime.frontends.http1_watch import HttpTimeouts
from inference_runtime.frontends.http_server import HttpOptions
from inference_runtime.frontends.restrictions import RequiredHeader
from inference_runtime.frontends.tls import TlsFiles


def options_value(options: HttpOptions | GrpcOptions) -> dict[str, Any]:
    pattern = options.forwarded
    return {
        **asdict(replace(options, forwarded=None)),
        "forwarded": None if pattern is None else pattern.text,
    }


def read_http_options(value: dict[str, Any]) -> HttpOptions:
    timeouts = HttpTimeouts(**value["timeouts"])
    return HttpOptions(**{**value, **_common(value), "timeouts": timeouts})


def read_grpc_options(value: dict[str, Any]) -> GrpcOptions:
    tls = value["tls"]
    own = {
        "tls": None if tls is None else TlsFiles(**tls),
        "limits": H2Limits(**value["limits"]),
        "timeouts": H2Timeouts(**value["timeouts"]),
    }
    return GrpcOptions(**{**value, **_common(value), **own})


def _common(value: dict[str, Any]) -> dict[str, Any]:
    pattern, restrictions = value["forwarded"], value["restrictions"]
    return {
        "forwarded": None if pattern is None else HeaderPattern(pattern),
        "restrictions": {name: RequiredHeader(**header) for name, header in restrictions.items()},
    }
