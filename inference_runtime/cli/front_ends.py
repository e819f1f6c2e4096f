"""The options of the HTTP and gRPC front ends."""

from inference_runtime.cli.arguments import Arguments, UsageError
from inference_runtime.cli.restrictions import grpc_restrictions, http_restrictions
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.h2_limits import H2Limits
from inference_runtime.frontends.h2_watch import H2Timeouts
from inference_runtime.frontends.header_forwarding import HeaderPattern
from inference_runtime.frontends.http_server import HttpOptions
from inference_runtime.frontends.tls import TlsFiles

_COMPRESSION_LEVELS = {"none": 0, "low": 1, "medium": 5, "high": 9}  # as zlib knows them


def http_options(given: Arguments) -> HttpOptions:
    return HttpOptions(
        reuse_port=given.switch("reuse-http-port"),
        max_input_bytes=_max_input(given),
        restrictions=http_restrictions(given),
        forwarded=_pattern(given, "http-header-forward-pattern"),
    )


def grpc_options(given: Arguments) -> GrpcOptions:
    _check_threads(given)
    return GrpcOptions(
        reuse_port=given.switch("reuse-grpc-port"),
        compression_level=_compression(given),
        restrictions=grpc_restrictions(given),
        forwarded=_pattern(given, "grpc-header-forward-pattern"),
        tls=_tls(given),
        limits=_ping_limits(given),
        timeouts=_timeouts(given),
    )


def _tls(given: Arguments) -> TlsFiles | None:
    mutual = given.switch("grpc-use-ssl-mutual")
    if not (given.switch("grpc-use-ssl") or mutual):
        return None
    files = TlsFiles(
        certificate=given.text("grpc-server-cert"),
        key=given.text("grpc-server-key"),
        root=given.text("grpc-root-cert"),
        mutual=mutual,
    )
    if not (files.certificate and files.key and (files.root or not mutual)):
        raise UsageError(
            "--grpc-use-ssl wants --grpc-server-cert and --grpc-server-key, and "
            "--grpc-use-ssl-mutual --grpc-root-cert besides."
        )
    return files


def _ping_limits(given: Arguments) -> H2Limits:
    interval_ms = given.number("grpc-http2-min-recv-ping-interval-without-data")
    return H2Limits(
        ping_strikes=given.number("grpc-http2-max-ping-strikes"),
        ping_interval=interval_ms / 1000,
        ping_without_calls=given.switch("grpc-keepalive-permit-without-calls"),
    )


def _timeouts(given: Arguments) -> H2Timeouts:
    return H2Timeouts(
        keepalive_time=given.number("grpc-keepalive-time", 1) / 1000,
        keepalive_timeout=given.number("grpc-keepalive-timeout", 1) / 1000,
        keepalive_without_calls=given.switch("grpc-keepalive-permit-without-calls"),
        keepalive_pings=given.number("grpc-http2-max-pings-without-data"),
        age=given.number("grpc-max-connection-age") / 1000,
        age_grace=given.number("grpc-max-connection-age-grace") / 1000,
    )


def _pattern(given: Arguments, option: str) -> HeaderPattern | None:
    text = given.text(option)
    if not text:
        return None
    try:
        return HeaderPattern(text)
    except ValueError as error:
        raise UsageError(f'Bad option: "--{option}". {error}') from error


def _max_input(given: Arguments) -> int:
    size = int(given.text("http-max-input-size"))
    if size <= 0:
        raise UsageError("Error: --http-max-input-size must be greater than 0.")
    return size


def _compression(given: Arguments) -> int:
    text = given.text("grpc-infer-response-compression-level")
    if text not in _COMPRESSION_LEVELS:
        raise UsageError(
            'Bad option: "--grpc-infer-response-compression-level". Use none, low, medium or high, '
            f'not "{text}".'
        )
    return _COMPRESSION_LEVELS[text]


def _check_threads(given: Arguments) -> None:
    if not 2 <= given.number("grpc-infer-thread-count") <= 128:
        raise UsageError(
            "invalid argument for --grpc_infer_thread_count. Must be in the range 2 to 128."
        )
