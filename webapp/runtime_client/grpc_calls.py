"""The standard v2 protocol over gRPC, through tritonclient, with its errors made ours."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import tritonclient.grpc as triton
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.utils import InferenceServerException

from webapp.runtime_client.address import parse_address
from webapp.runtime_client.errors import RuntimeRefused, RuntimeUnreachable
from webapp.runtime_client.types import (
    BatchStatistics,
    IndexEntry,
    InferAnswer,
    ModelMetadata,
    ServerMetadata,
    Tensor,
    TensorSpec,
    VersionStatistics,
)

# gRPC waits up to two minutes before it looks again at a server that was down. A runtime that came
# back must be seen at once, and one client's waiting must not be another's.
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),  # how long one attempt may take
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
]
_HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 409,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
}
# A server says UNAVAILABLE too ("not at ready state"); only the text tells the two apart.
_NO_CONNECTION = re.compile(
    r"failed to connect|connection (refused|reset|closed|timed out)|socket closed|goaway|"
    r"dns resolution|name resolution|name or service not known|no route to host|"
    r"network is unreachable|recvmsg:|sendmsg:|broken pipe|cancelling all calls|ping timeout",
    re.IGNORECASE,
)


class GrpcCalls:
    """One channel to one address. May be shared between threads."""

    def __init__(self, address: str, timeout: float, load_timeout: float) -> None:
        parse_address(address)
        self._address = address
        self._timeout = timeout
        self._load_timeout = load_timeout
        self._triton = triton.InferenceServerClient(address, channel_args=_CHANNEL)

    def close(self) -> None:
        self._triton.close()

    def live(self, timeout: float | None) -> bool:
        return bool(self._call(self._triton.is_server_live, timeout))

    def ready(self, timeout: float | None) -> bool:
        return bool(self._call(self._triton.is_server_ready, timeout))

    def model_ready(self, name: str, version: int | None) -> bool:
        return bool(self._call(self._triton.is_model_ready, None, name, _text(version)))

    def metadata(self, timeout: float | None) -> ServerMetadata:
        answer = self._call(self._triton.get_server_metadata, timeout)
        return ServerMetadata(answer.name, answer.version, tuple(answer.extensions))

    def index(self, timeout: float | None) -> list[IndexEntry]:
        answer = self._call(self._triton.get_model_repository_index, timeout)
        return [
            IndexEntry(
                model=entry.name,
                version=int(entry.version) if entry.version else None,
                state=entry.state,
                reason=entry.reason,
            )
            for entry in answer.models
        ]

    def load(self, name: str, config_json: str | None, timeout: float | None) -> None:
        seconds = self._load_timeout if timeout is None else timeout
        self._call(self._triton.load_model, seconds, name, config=config_json)

    def unload(self, name: str, timeout: float | None) -> None:
        self._call(self._triton.unload_model, timeout, name)

    def model_metadata(self, name: str, version: int | None) -> ModelMetadata:
        answer = self._call(self._triton.get_model_metadata, None, name, _text(version))
        return ModelMetadata(
            name=answer.name,
            versions=tuple(int(number) for number in answer.versions),
            platform=answer.platform,
            inputs=tuple(_spec(tensor) for tensor in answer.inputs),
            outputs=tuple(_spec(tensor) for tensor in answer.outputs),
        )

    def model_config(self, name: str, version: int | None) -> ModelConfig:
        answer = self._call(self._triton.get_model_config, None, name, _text(version))
        config: ModelConfig = answer.config
        return config

    def statistics(
        self, name: str, version: int | None, timeout: float | None
    ) -> list[VersionStatistics]:
        answer = self._call(self._triton.get_inference_statistics, timeout, name, _text(version))
        return [_statistics(entry) for entry in answer.model_stats]

    def infer(
        self,
        name: str,
        inputs: Sequence[Tensor],
        version: int | None,
        outputs: Sequence[str],
        request_id: str,
        timeout: float | None,
    ) -> InferAnswer:
        answer = self._call(
            self._triton.infer,
            timeout,
            name,
            [_input(tensor) for tensor in inputs],
            model_version=_text(version),
            outputs=[triton.InferRequestedOutput(output) for output in outputs] or None,
            request_id=request_id,
        )
        message = answer.get_response()
        return InferAnswer(
            model=message.model_name,
            version=int(message.model_version or 0),
            outputs=tuple(
                Tensor(output.name, output.datatype, answer.as_numpy(output.name))
                for output in message.outputs
            ),
            request_id=message.id,
        )

    def _call(
        self, method: Callable[..., Any], timeout: float | None, *args: Any, **kwargs: Any
    ) -> Any:
        seconds = self._timeout if timeout is None else timeout
        try:
            return method(*args, client_timeout=seconds, **kwargs)
        except InferenceServerException as problem:
            raise self._translated(problem, seconds) from None
        except ValueError:  # grpc says so when the channel was closed meanwhile
            raise RuntimeUnreachable(f"{self._address}: the connection was closed") from None

    def _translated(
        self, problem: InferenceServerException, seconds: float
    ) -> RuntimeUnreachable | RuntimeRefused:
        text = str(problem.message())
        code = str(problem.status() or "").removeprefix("StatusCode.")
        if code == "DEADLINE_EXCEEDED":
            return RuntimeUnreachable(f"{self._address} did not answer within {seconds:g} s")
        if text.startswith("Received http2 header"):  # a web server or proxy answered
            return RuntimeUnreachable(f"{self._address} does not speak gRPC; is it the right port?")
        if code == "UNAVAILABLE" and _NO_CONNECTION.search(text):
            return RuntimeUnreachable(self._no_connection(text))
        return RuntimeRefused(text.strip(), _HTTP_STATUS.get(code, 500))

    def _no_connection(self, text: str) -> str:
        if "HTTP/2" in text:
            return f"{self._address} does not speak gRPC; is it the right port?"
        if "timed out" in text:
            return f"{self._address} did not answer in time"
        # gRPC wraps the cause: "failed to connect to all addresses; last error: UNKNOWN: …: cause"
        return f"{self._address}: {text.rsplit(': ', 1)[-1].strip() or text}"


def _text(version: int | None) -> str:
    return "" if version is None else str(version)


def _spec(tensor: Any) -> TensorSpec:
    return TensorSpec(tensor.name, tensor.datatype, tuple(tensor.shape))


def _input(tensor: Tensor) -> Any:
    value = triton.InferInput(tensor.name, list(tensor.array.shape), tensor.datatype)
    value.set_data_from_numpy(tensor.array)
    return value


def _statistics(entry: Any) -> VersionStatistics:
    stats = entry.inference_stats
    return VersionStatistics(
        model=entry.name,
        version=int(entry.version),
        inference_count=entry.inference_count,
        execution_count=entry.execution_count,
        success_count=stats.success.count,
        success_ns=stats.success.ns,
        fail_count=stats.fail.count,
        queue_ns=stats.queue.ns,
        compute_input_ns=stats.compute_input.ns,
        compute_infer_ns=stats.compute_infer.ns,
        compute_output_ns=stats.compute_output.ns,
        batches=tuple(
            BatchStatistics(batch.batch_size, batch.compute_infer.count, batch.compute_infer.ns)
            for batch in entry.batch_stats
        ),
    )
