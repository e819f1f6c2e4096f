"""The options of the HTTP and gRPC front ends."""

from inference_runtime.cli.arguments import Arguments, UsageError
from inference_runtime.cli.restrictions import grpc_restrictions, http_restrictions
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.header_forwarding import HeaderPattern
from inference_runtime.frontends.http_server import HttpOptions

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
