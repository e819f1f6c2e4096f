"""The process' settings: what the command line says, typed and checked, in one frozen value."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.http_server import HttpOptions
from inference_runtime.lifecycle.start_up import ModelControlMode
from inference_runtime.repository.locations import Credentials, Location, read_credentials
from inference_runtime.repository.model_cache import DEFAULT_MAX_BYTES
from inference_runtime.scheduling.hold import Hold
from inference_runtime.scheduling.resource_pools import Listed
from inference_runtime.shared_memory.regions import RegionOptions
from inference_runtime.spec.config_rules import MIN_COMPUTE_CAPABILITY
from inference_runtime.spec.host_policy import HostPolicy
from inference_runtime.telemetry.logs import LogSettings
from inference_runtime.telemetry.options import MetricsOptions
from inference_runtime.telemetry.trace_settings import ExportOptions, TraceOptions


@dataclass(frozen=True, slots=True)
class Listen:
    """Where one front end listens."""

    name: str  # HTTP, GRPC, Metrics: as messages call it
    enabled: bool
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class LoadSettings:
    threads: int = 4
    retries: int = 0
    auto_complete: bool = True
    backend_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # "": all
    host_policies: Mapping[str, HostPolicy] = field(default_factory=dict)
    min_compute_capability: float = MIN_COMPUTE_CAPABILITY  # of the GPUs that models are placed on


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    repositories: tuple[Location, ...]
    http: Listen
    grpc: Listen
    metrics: Listen
    server_id: str = "triton"
    mode: ModelControlMode = ModelControlMode.NONE
    load_models: tuple[str, ...] = ()
    poll_seconds: float = 15.0
    config_name: str = ""
    namespacing: bool = False
    cache_bytes: int = DEFAULT_MAX_BYTES  # of local copies of models from object storage
    exit_on_error: bool = True
    exit_timeout_seconds: float = 30.0
    strict_readiness: bool = True
    loading: LoadSettings = LoadSettings()
    metrics_options: MetricsOptions = field(default_factory=MetricsOptions)
    regions: RegionOptions = field(default_factory=RegionOptions)
    http_options: HttpOptions = field(default_factory=HttpOptions)
    grpc_options: GrpcOptions = field(default_factory=GrpcOptions)
    front_ends: int = 0  # processes that serve HTTP and gRPC; 0: this one does
    logs: LogSettings = field(default_factory=LogSettings)
    traces: TraceOptions = field(default_factory=TraceOptions)
    rate_limit: Listed | None = None  # None: off
    response_cache_bytes: int = 0  # 0: no cache
    state_directory: Path | None = None  # --switchyard-state-dir: without it nothing is remembered

    @property
    def listens(self) -> tuple[Listen, ...]:
        return tuple(listen for listen in (self.http, self.grpc, self.metrics) if listen.enabled)


# What is ours alone, or how to reach other parts of the installation: nothing for the code of a model.
_OWN_VARIABLES = ("DATABASE_URL", "REDIS_URL", "STORAGE_URL", "TRITON_CLOUD_CREDENTIAL_PATH")
_OWN_PREFIXES = ("SWITCHYARD_", "DJANGO_")


def child_environment() -> dict[str, str]:
    """The environment of processes that run a model's code."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _OWN_VARIABLES and not name.startswith(_OWN_PREFIXES)
    }


def cloud_credentials() -> Credentials:
    """Of the file that TRITON_CLOUD_CREDENTIAL_PATH names; raises InvalidArgument for one that can not be read."""
    path = os.environ.get("TRITON_CLOUD_CREDENTIAL_PATH", "")
    return read_credentials(Path(path)) if path else {}


def escapes_log_messages() -> bool:
    """What TRITON_SERVER_ESCAPE_LOG_MESSAGES says; without it a log may hold lines that clients made up."""
    return os.environ.get("TRITON_SERVER_ESCAPE_LOG_MESSAGES", "1") != "0"


def span_export_defaults() -> ExportOptions:
    """What OpenTelemetry's own variables say of the batches of spans; a number that is none is ignored."""

    def number(name: str, default: int) -> int:
        text = os.environ.get(f"OTEL_BSP_{name}", "")
        return int(text) if text.isdecimal() and 0 < len(text) < 10 and int(text) else default

    defaults = ExportOptions()
    return ExportOptions(
        max_queue_size=number("MAX_QUEUE_SIZE", defaults.max_queue_size),
        schedule_delay_ms=number("SCHEDULE_DELAY", defaults.schedule_delay_ms),
        max_export_batch_size=number("MAX_EXPORT_BATCH_SIZE", defaults.max_export_batch_size),
    )


def scheduler_hold() -> Hold:
    """What Triton's variables for tests of schedulers say; a number that is none is ignored."""

    def number(name: str) -> int:
        text = os.environ.get(f"TRITONSERVER_{name}", "")
        return int(text) if text.isdecimal() and len(text) < 10 else 0

    return Hold(number("DELAY_SCHEDULER"), number("BACKLOG_DELAY_SCHEDULER"))


def malloc_variables() -> frozenset[str]:
    """What the operator has set of glibc's allocator."""
    return frozenset(name for name in os.environ if name.startswith("MALLOC_"))
