"""Every option of the command line as a row: tritonserver's by its names and defaults, and our own.

An option that is understood and not built here is either harmless to ignore, and ignored, or refused
with a sentence when it asks for anything but its default.
"""

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    TEXT = "text"
    NUMBER = "number"
    SWITCH = "switch"  # true/false/1/0
    FLAG = "flag"  # stands alone
    LIST = "list"  # may be repeated


class Use(enum.Enum):
    HERE = "here"
    IGNORED = "ignored"  # makes no difference to what a client sees
    REFUSED = "refused"  # not built: only the default is accepted


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    kind: Kind
    default: str = ""
    use: Use = Use.HERE
    help: str = ""


def _here(name: str, kind: Kind, default: str, text: str) -> Option:
    return Option(name, kind, default, Use.HERE, text)


def _ignored(name: str, kind: Kind, default: str = "") -> Option:
    return Option(name, kind, default, Use.IGNORED, "accepted, makes no difference here")


def _refused(name: str, kind: Kind, default: str = "") -> Option:
    return Option(
        name, kind, default, Use.REFUSED, "not supported yet: only the default is accepted"
    )


OPTIONS: tuple[Option, ...] = (
    _here("id", Kind.TEXT, "triton", "the server's name in its metadata"),
    _here("model-repository", Kind.LIST, "", "directory or URL of models; may be repeated"),
    _here("model-store", Kind.LIST, "", "the same as --model-repository"),
    _here("exit-on-error", Kind.SWITCH, "true", "end when a model of the start does not load"),
    _here("exit-timeout-secs", Kind.NUMBER, "30", "how long to wait for requests in flight"),
    _here("strict-readiness", Kind.SWITCH, "true", "ready only when every model is"),
    _here("disable-auto-complete-config", Kind.FLAG, "", "a complete config.pbtxt is required"),
    _here("strict-model-config", Kind.SWITCH, "", "deprecated: --disable-auto-complete-config"),
    _here("model-control-mode", Kind.TEXT, "none", "none, poll or explicit"),
    _here("repository-poll-secs", Kind.NUMBER, "15", "seconds between two looks in mode poll"),
    _here("load-model", Kind.LIST, "", "model to load at start in mode explicit; * for all"),
    _here("model-config-name", Kind.TEXT, "", "use configs/<name>.pbtxt where a model has one"),
    _here("model-load-thread-count", Kind.NUMBER, "4", "threads that load models"),
    _here("model-load-retry-count", Kind.NUMBER, "0", "how often to try a failed load again"),
    _here("model-namespacing", Kind.SWITCH, "false", "several models of one name"),
    _refused("model-load-gpu-limit", Kind.LIST),
    _ignored("enable-peer-access", Kind.SWITCH, "true"),
    _here("allow-http", Kind.SWITCH, "true", "serve HTTP"),
    _here("http-address", Kind.TEXT, "0.0.0.0", "where HTTP listens"),
    _here("http-port", Kind.NUMBER, "8000", "0: any free port, which the log names"),
    _here("reuse-http-port", Kind.SWITCH, "false", "SO_REUSEPORT"),
    _ignored("http-thread-count", Kind.NUMBER, "8"),
    _here("http-max-input-size", Kind.NUMBER, "67108864", "bytes of JSON or raw input"),
    _here("http-header-forward-pattern", Kind.TEXT, "", "headers that become parameters (RE2)"),
    _here("http-restricted-api", Kind.LIST, "", "<category>[,<category>]:<header>=<value>"),
    _here("allow-grpc", Kind.SWITCH, "true", "serve gRPC"),
    _here("grpc-address", Kind.TEXT, "0.0.0.0", "where gRPC listens"),
    _here("grpc-port", Kind.NUMBER, "8001", "0: any free port, which the log names"),
    _here("reuse-grpc-port", Kind.SWITCH, "false", "SO_REUSEPORT"),
    _here("grpc-header-forward-pattern", Kind.TEXT, "", "metadata that become parameters (RE2)"),
    _here("grpc-infer-thread-count", Kind.NUMBER, "2", "2 to 128; makes no difference here"),
    _ignored("grpc-infer-allocation-pool-size", Kind.NUMBER, "8"),
    _ignored("grpc-max-response-pool-size", Kind.NUMBER, "2147483647"),
    _here("grpc-use-ssl", Kind.SWITCH, "false", "gRPC over TLS"),
    _here("grpc-use-ssl-mutual", Kind.SWITCH, "false", "… and clients show a certificate"),
    _here("grpc-server-cert", Kind.TEXT, "", "PEM file of the server's certificate"),
    _here("grpc-server-key", Kind.TEXT, "", "PEM file of its key"),
    _here("grpc-root-cert", Kind.TEXT, "", "PEM file of the clients' root certificate"),
    _here("grpc-infer-response-compression-level", Kind.TEXT, "none", "none, low, medium or high"),
    _here("grpc-keepalive-time", Kind.NUMBER, "7200000", "ms of silence before a ping"),
    _here("grpc-keepalive-timeout", Kind.NUMBER, "20000", "ms to wait for its answer"),
    _here("grpc-keepalive-permit-without-calls", Kind.SWITCH, "false", "pings of idle connections"),
    _here("grpc-http2-max-pings-without-data", Kind.NUMBER, "2", "sent in a row; 0: any number"),
    _here(
        "grpc-http2-min-recv-ping-interval-without-data",
        Kind.NUMBER,
        "300000",
        "ms between pings of a client",
    ),
    _here("grpc-http2-max-ping-strikes", Kind.NUMBER, "2", "pings too soon; 0: any number"),
    _here("grpc-max-connection-age", Kind.NUMBER, "0", "ms a connection takes calls; 0: no end"),
    _here("grpc-max-connection-age-grace", Kind.NUMBER, "0", "ms more for its calls; 0: no end"),
    _here("grpc-restricted-protocol", Kind.LIST, "", "<category>[,<category>]:<key>=<value>"),
    _here("frontends", Kind.NUMBER, "0", "processes that serve HTTP and gRPC; 0: this one does"),
    _here("allow-metrics", Kind.SWITCH, "true", "serve /metrics"),
    _here("allow-gpu-metrics", Kind.SWITCH, "true", "GPU gauges in /metrics"),
    _here("allow-cpu-metrics", Kind.SWITCH, "true", "CPU and memory gauges in /metrics"),
    _here("metrics-address", Kind.TEXT, "", "where /metrics listens; default: --http-address"),
    _here("metrics-port", Kind.NUMBER, "8002", "0: any free port, which the log names"),
    _here("metrics-interval-ms", Kind.NUMBER, "2000", "how old a gauge may be"),
    _here("metrics-config", Kind.LIST, "", "counter_latencies=, histogram_latencies=, …"),
    _here("trace-config", Kind.LIST, "", "level=, rate=, count=, mode=, triton,file=, …"),
    _here("trace-file", Kind.TEXT, "", "deprecated: --trace-config=triton,file="),
    _here("trace-level", Kind.LIST, "", "deprecated: --trace-config=level="),
    _here("trace-rate", Kind.TEXT, "", "deprecated: --trace-config=rate="),
    _here("trace-count", Kind.TEXT, "", "deprecated: --trace-config=count="),
    _here("trace-log-frequency", Kind.TEXT, "", "deprecated: triton,log-frequency="),
    _here("log-verbose", Kind.TEXT, "0", "0, or how much to tell"),
    _here("log-info", Kind.SWITCH, "true", "lines of level info"),
    _here("log-warning", Kind.SWITCH, "true", "lines of level warning"),
    _here("log-error", Kind.SWITCH, "true", "lines of level error"),
    _here("log-format", Kind.TEXT, "default", "default or ISO8601"),
    _here("log-file", Kind.TEXT, "", "file for all lines, in place of standard output and error"),
    _here("cache-config", Kind.LIST, "", "local,size=<bytes>: a response cache"),
    _ignored("cache-directory", Kind.TEXT),
    _here("response-cache-byte-size", Kind.NUMBER, "0", "deprecated: --cache-config=local,size="),
    _here("rate-limit", Kind.TEXT, "off", "off or execution_count"),
    _here("rate-limit-resource", Kind.LIST, "", "<name>:<count>[:<device>]"),
    _here("pinned-memory-pool-byte-size", Kind.NUMBER, "268435456", "only shown in /metrics"),
    _ignored("cuda-memory-pool-byte-size", Kind.LIST),
    _ignored("cuda-virtual-address-size", Kind.LIST),
    _here("min-supported-compute-capability", Kind.TEXT, "7.5", "GPUs below it are not used"),
    _ignored("buffer-manager-thread-count", Kind.NUMBER, "0"),
    _here("host-policy", Kind.LIST, "", "<policy>,cpu-cores=<cores> or <policy>,numa-node=<node>"),
    _ignored("backend-directory", Kind.TEXT),
    _here("backend-config", Kind.LIST, "", "<backend>,<key>=<value> or <key>=<value>"),
    _ignored("repoagent-directory", Kind.TEXT),
    _here("allow-client-shm", Kind.SWITCH, "false", "clients on loopback may use shared memory"),
    _refused("allow-sagemaker", Kind.SWITCH, "false"),
    _refused("allow-vertex-ai", Kind.SWITCH, "false"),
    _here("switchyard-shm-remote", Kind.SWITCH, "false", "clients outside of loopback may, too"),
    _here("switchyard-shm-regions", Kind.NUMBER, "512", "regions that may be registered at once"),
    _here("switchyard-shm-bytes", Kind.NUMBER, "4294967296", "shared memory inputs in flight"),
    _here("switchyard-cache-bytes", Kind.NUMBER, "107374182400", "copies of models from afar"),
    _here("switchyard-state-dir", Kind.TEXT, "", "keeps traffic tables and explicit loads"),
)
BY_NAME = {option.name: option for option in OPTIONS}


def usage() -> str:
    lines = ["usage: python -m inference_runtime --model-repository=DIR [options]", ""]
    for option in OPTIONS:
        default = f" (default {option.default})" if option.default else ""
        lines.append(f"  --{option.name}: {option.help}{default}")
    return "\n".join(lines)
