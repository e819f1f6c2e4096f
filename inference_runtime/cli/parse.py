"""Arguments → RuntimeSettings."""

import re
from collections.abc import Sequence
from pathlib import Path

from inference_runtime.cli.arguments import SWITCH, Arguments, UsageError
from inference_runtime.cli.front_ends import grpc_options, http_options
from inference_runtime.cli.host_policies import host_policies
from inference_runtime.cli.limits import rate_limit, response_cache_bytes
from inference_runtime.cli.trace import trace_options
from inference_runtime.errors import InvalidArgument
from inference_runtime.lifecycle.start_up import ModelControlMode
from inference_runtime.repository.locations import Location, read_location
from inference_runtime.settings import (
    Listen,
    LoadSettings,
    RuntimeSettings,
    cloud_credentials,
    escapes_log_messages,
    span_export_defaults,
)
from inference_runtime.shared_memory.regions import RegionOptions
from inference_runtime.telemetry.logs import FORMATS, LogSettings
from inference_runtime.telemetry.options import MetricsOptions

DEPRECATED_STRICT = (
    "Warning: '--strict-model-config' has been deprecated! Please use "
    "'--disable-auto-complete-config' instead."
)
MAX_FRONT_ENDS = 64
_CAPABILITY = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3})?")
OVERRIDDEN_STRICT = (
    "Warning: Overriding deprecated '--strict-model-config' from False to True in favor of "
    "'--disable-auto-complete-config'!"
)


def parse(arguments: Sequence[str]) -> tuple[RuntimeSettings, list[str]]:
    """The settings, and warnings to log; raises UsageError."""
    given = Arguments(arguments)
    warnings: list[str] = []
    repositories = given.many("model-repository") + given.many("model-store")
    if not repositories:
        raise UsageError("--model-repository must name the directory of the models")
    mode = _mode(given)
    state = given.text("switchyard-state-dir")
    settings = RuntimeSettings(
        repositories=_repositories(repositories),
        http=_listen(given, "HTTP", "http"),
        grpc=_listen(given, "GRPC", "grpc"),
        metrics=_metrics_listen(given),
        server_id=given.text("id"),
        mode=mode,
        load_models=tuple(given.many("load-model")),
        poll_seconds=given.number("repository-poll-secs", 1),
        config_name=_config_name(given),
        namespacing=given.switch("model-namespacing"),
        cache_bytes=given.number("switchyard-cache-bytes", 1),
        exit_on_error=given.switch("exit-on-error"),
        exit_timeout_seconds=given.number("exit-timeout-secs"),
        strict_readiness=given.switch("strict-readiness"),
        loading=_loading(given, warnings),
        metrics_options=_metrics_options(given),
        regions=_regions(given),
        http_options=http_options(given),
        grpc_options=grpc_options(given),
        front_ends=_front_ends(given),
        logs=_logs(given),
        traces=trace_options(given, warnings, span_export_defaults()),
        rate_limit=rate_limit(given),
        response_cache_bytes=response_cache_bytes(given),
        state_directory=Path(state) if state else None,
    )
    _check_ports(settings.listens)
    return settings, warnings


def _repositories(given: Sequence[str]) -> tuple[Location, ...]:
    try:
        credentials = cloud_credentials()
        return tuple(read_location(text, credentials) for text in dict.fromkeys(given))
    except InvalidArgument as fault:
        raise UsageError(f'Bad option: "--model-repository". {fault.text}') from fault


def _mode(given: Arguments) -> ModelControlMode:
    text = given.text("model-control-mode")
    try:
        mode = ModelControlMode(text)
    except ValueError:
        raise UsageError(
            f'Bad option: "--model-control-mode". Use none, poll or explicit, not "{text}".'
        ) from None
    if given.many("load-model") and mode is not ModelControlMode.EXPLICIT:
        raise UsageError(
            "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."
        )
    return mode


def _listen(given: Arguments, label: str, prefix: str) -> Listen:
    return Listen(
        name=label,
        enabled=given.switch(f"allow-{prefix}"),
        address=given.text(f"{prefix}-address"),
        port=_port(given, f"{prefix}-port"),
    )


def _metrics_listen(given: Arguments) -> Listen:
    address = given.text("metrics-address") or given.text("http-address")
    return Listen("Metrics", given.switch("allow-metrics"), address, _port(given, "metrics-port"))


def _port(given: Arguments, name: str) -> int:
    port = given.number(name)
    if port > 65535:
        raise UsageError(f'Bad option: "--{name}". A port is at most 65535.')
    return port


def _check_ports(listens: Sequence[Listen]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for listen in listens:
        place = (listen.address, listen.port)
        if listen.port and place in taken:
            raise UsageError(
                f"The server cannot listen to {taken[place]} requests and {listen.name} requests at the "
                f"same address and port {listen.address}:{listen.port}"
            )
        taken[place] = listen.name


def _config_name(given: Arguments) -> str:
    name = given.text("model-config-name")
    if given.given("model-config-name") and (not name or "/" in name or name.startswith(".")):
        raise UsageError("Error: --model-config-name must be the name of a file in configs/")
    return name


def _regions(given: Arguments) -> RegionOptions:
    return RegionOptions(
        enabled=given.switch("allow-client-shm"),
        remote=given.switch("switchyard-shm-remote"),
        max_regions=given.number("switchyard-shm-regions", 1),
        max_copied_bytes=given.number("switchyard-shm-bytes", 1),
    )


def _front_ends(given: Arguments) -> int:
    count = given.number("frontends")
    if count > MAX_FRONT_ENDS:
        raise UsageError(f'Bad option: "--frontends". It may be {MAX_FRONT_ENDS} at most.')
    return count


def _loading(given: Arguments, warnings: list[str]) -> LoadSettings:
    disabled = given.switch("disable-auto-complete-config")
    if given.given("strict-model-config"):
        warnings.append(DEPRECATED_STRICT)
        strict = given.switch("strict-model-config")
        if disabled and not strict:
            warnings.append(OVERRIDDEN_STRICT)
        disabled = disabled or strict
    return LoadSettings(
        threads=given.number("model-load-thread-count", 1),
        retries=given.number("model-load-retry-count"),
        auto_complete=not disabled,
        backend_options=_backend_options(given),
        host_policies=host_policies(given),
        min_compute_capability=_capability(given),
    )


def _capability(given: Arguments) -> float:
    text = given.text("min-supported-compute-capability")
    if not _CAPABILITY.fullmatch(text):
        raise UsageError(
            f'Bad option: "--min-supported-compute-capability". Use a number as 7.5, not "{text}".'
        )
    return float(text)


def _backend_options(given: Arguments) -> dict[str, dict[str, str]]:
    options: dict[str, dict[str, str]] = {}
    for entry in given.many("backend-config"):
        left, comma, right = entry.partition(",")
        backend, setting = (left, right) if comma else ("", left)
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(
                f'Bad option: "--backend-config". Use <backend>,<key>=<value>, not "{entry}".'
            )
        options.setdefault(backend, {})[key] = value
    return options


def _metrics_options(given: Arguments) -> MetricsOptions:
    config = dict(entry.partition("=")[::2] for entry in given.many("metrics-config"))
    switches = {
        key: SWITCH.get(config.get(key, default).lower(), default == "true")
        for key, default in (
            ("counter_latencies", "true"),
            ("histogram_latencies", "false"),
            ("summary_latencies", "false"),
        )
    }
    defaults = MetricsOptions()
    return MetricsOptions(
        gpu=given.switch("allow-gpu-metrics"),
        cpu=given.switch("allow-cpu-metrics"),
        interval_ns=given.number("metrics-interval-ms", 1) * 1_000_000,
        pinned_pool_bytes=given.number("pinned-memory-pool-byte-size"),
        quantiles=_quantiles(config.get("summary_quantiles", "")) or defaults.quantiles,
        **switches,
    )


def _quantiles(text: str) -> tuple[float, ...]:
    """`0.5:0.05,0.9:0.01`; pairs that are none are skipped, as Triton does."""
    quantiles: list[float] = []
    for pair in text.split(","):
        try:
            quantile = float(pair.partition(":")[0])
        except ValueError:
            continue
        if 0 < quantile < 1:
            quantiles.append(quantile)
    return tuple(quantiles)


def _logs(given: Arguments) -> LogSettings:
    verbose = given.text("log-verbose").lower()
    if verbose in ("true", "false"):
        verbose = str(int(verbose == "true"))
    if re.fullmatch("[0-9]{1,9}", verbose) is None:  # the protocol reports it in 32 bits
        raise UsageError(f'Bad option: "--log-verbose". Use a whole number, not "{verbose}".')
    form = given.text("log-format")
    if form not in FORMATS:
        raise UsageError(f'Bad option: "--log-format". Use default or ISO8601, not "{form}".')
    return LogSettings(
        verbose_level=int(verbose),
        info=given.switch("log-info"),
        warning=given.switch("log-warning"),
        error=given.switch("log-error"),
        format=form,
        file=given.text("log-file"),
        escape=escapes_log_messages(),
    )
