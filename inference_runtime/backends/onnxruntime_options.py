"""What a config and the server's backend options say about an ONNX Runtime session; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference_runtime.backends.onnxruntime_accelerators import (
    Provider,
    asked_gpu_providers,
    cpu_providers,
    gpu_providers,
)
from inference_runtime.errors import InvalidArgument

MAX_THREADS = 1024
_GRAPH_LEVELS = {-1: "ORT_ENABLE_BASIC", 1: "ORT_ENABLE_EXTENDED", 2: "ORT_DISABLE_ALL"}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Hashable, so that instances with equal settings can share one session."""

    intra_op_threads: int
    inter_op_threads: int
    parallel: bool
    graph_level: str  # name of a GraphOptimizationLevel
    memory_arena: bool
    memory_pattern: bool
    entries: tuple[tuple[str, str], ...]  # session config entries, as they are
    run_entries: tuple[tuple[str, str], ...]
    library_files: tuple[str, ...]  # custom operators
    providers: tuple[Provider, ...]  # in order of preference
    # Must be installed although this session may not use them: the instances are on a CPU, and the
    # accelerators of the config are for a GPU. Serving without what was asked for would go unnoticed.
    installed: tuple[str, ...] = ()
    global_pool: tuple[int, int] | None = (
        None  # threads within and between operators, of all sessions
    )


def session_settings(
    proto: Any, options: Mapping[str, str], gpu: int | None = None
) -> SessionSettings:
    """`proto` is the model's config, which need not be complete yet; raises InvalidArgument."""
    parameters = {key: value.string_value for key, value in proto.parameters.items()}
    read = _Reader(proto.name, parameters, options)
    asked = asked_gpu_providers(proto)
    return SessionSettings(
        # One thread by default: instances are the unit of parallelism, and pools sized to the
        # host make several sessions slower than one.
        intra_op_threads=read.threads("intra_op_thread_count", 1),
        inter_op_threads=read.threads("inter_op_thread_count", 1),
        parallel=read.parallel(),
        graph_level=_GRAPH_LEVELS.get(proto.optimization.graph.level, "ORT_ENABLE_ALL"),
        memory_arena=read.choice("enable_mem_arena", _SWITCH, True),
        # Patterns are kept per shape, so with sizes that vary memory would climb for ever; measured,
        # they gain nothing on the models of the benchmark.
        memory_pattern=read.choice("enable_mem_pattern", _SWITCH, False),
        entries=read.session_entries(),
        run_entries=read.run_entries(),
        library_files=tuple(proto.model_operations.op_library_filename),
        providers=cpu_providers(proto) if gpu is None else gpu_providers(proto, gpu, parameters),
        installed=asked if gpu is None else (),
        global_pool=_global_pool(proto.name, options),
    )


_SWITCH: Mapping[str, bool] = {"0": False, "1": True, "false": False, "true": True}


def _global_pool(model: str, options: Mapping[str, str]) -> tuple[int, int] | None:
    server = _Reader(model, {}, options)
    if not server.choice("enable-global-threadpool", _SWITCH, False):
        return None
    return server.threads("intra_op_thread_count", 0), server.threads("inter_op_thread_count", 0)


class _Reader:
    """The model's parameters, then the server's backend options, then a default."""

    def __init__(self, name: str, parameters: Mapping[str, str], options: Mapping[str, str]):
        self._name = name
        self._parameters = parameters
        self._options = options

    def _text(self, key: str) -> str | None:
        return self._parameters.get(key, self._options.get(key))

    def threads(self, key: str, default: int) -> int:
        text = self._text(key)
        if text is None:
            return default
        if not text.isdecimal():
            raise InvalidArgument(
                f"parameter '{key}' of model '{self._name}' must be a non-negative integer, got '{text}'"
            )
        # ONNX Runtime waits for ever for threads that the system does not give.
        if len(text) > 4 or int(text) > MAX_THREADS:
            raise InvalidArgument(
                f"parameter '{key}' of model '{self._name}' must be {MAX_THREADS} at most, got '{text}'"
            )
        return int(text)

    def choice(self, key: str, choices: Mapping[str, Any], default: Any) -> Any:
        text = self._text(key)
        if text is None:
            return default
        if text not in choices:
            raise InvalidArgument(
                f"parameter '{key}' of model '{self._name}' must be one of "
                f"{', '.join(choices)}, got '{text}'"
            )
        return choices[text]

    def parallel(self) -> bool:
        text = self._text("execution_mode") or "0"
        if text not in ("0", "1"):
            raise InvalidArgument(
                "Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 "
                f"but got {text} ."
            )
        return text == "1"

    def session_entries(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            sorted((k, v) for k, v in self._parameters.items() if k.startswith("session."))
        )

    def run_entries(self) -> tuple[tuple[str, str], ...]:
        key = "memory.enable_memory_arena_shrinkage"
        text = self._parameters.get(key)
        return ((key, text),) if text else ()
