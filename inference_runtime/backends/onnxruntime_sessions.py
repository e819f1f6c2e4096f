"""ONNX Runtime's sessions: opened from settings, shared while a version loads, faults in Triton's words."""

import functools
import os
import re
import threading
import weakref
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from inference_runtime.backends.base import ModelArtifact
from inference_runtime.backends.onnxruntime_accelerators import OPENVINO, TENSORRT
from inference_runtime.backends.onnxruntime_options import SessionSettings
from inference_runtime.errors import Internal, InvalidArgument, RuntimeFault, Unavailable
from inference_runtime.spec.layout import OutsideRoot, resolve_inside

_ORT_ERROR = re.compile(r"\[ONNXRuntimeError\] : (\d+) : (\w+) : (.*)", re.DOTALL)
_QUIET = 4  # ORT prints what it also raises; the fault carries the text, so nothing is lost
# Building for these is not safe beside another build.
_ONE_AT_A_TIME = frozenset((OPENVINO, TENSORRT))
_build_lock = threading.Lock()


class Sessions:
    """Sessions of loads in progress, so that describing a file and its CPU instances open it once.

    Kept per artifact, which lives as long as its load: a reload of changed files never meets an
    old session.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_artifact: weakref.WeakKeyDictionary[ModelArtifact, dict[Any, Any]] = (
            weakref.WeakKeyDictionary()
        )

    def session(self, artifact: ModelArtifact, path: Path, settings: SessionSettings) -> Any:
        with self._lock:
            known = self._by_artifact.setdefault(artifact, {})
            lock = known.setdefault("lock", threading.Lock())
        with lock:
            # The pool of a session runs where the thread was that made it: see host policies.
            key = (path, settings, usable_cores())
            if key not in known:
                known[key] = open_session(path, settings, artifact.model_directory)
            return known[key]


def open_session(path: Path, settings: SessionSettings, model_directory: Path) -> Any:
    import onnxruntime

    _check_installed(onnxruntime, settings)
    if settings.global_pool is not None:
        _make_global_pool(*settings.global_pool)
    wanted = [provider.name for provider in settings.providers]
    try:
        options = _session_options(onnxruntime, settings, model_directory)
        with _turn(wanted):
            session = onnxruntime.InferenceSession(
                str(path),
                options,
                providers=[(each.name, dict(each.options)) for each in settings.providers],
                enable_fallback=0,
            )
    except Exception as error:
        raise ort_fault(error) from error
    started = session.get_providers()
    lost = [name for name in wanted if name not in started]
    if lost:  # ORT only prints a warning when a provider's libraries are not there
        raise Unavailable(f"ONNX Runtime could not start {lost[0]}, and fell back to {started[0]}")
    return session


def _check_installed(onnxruntime: Any, settings: SessionSettings) -> None:
    available = onnxruntime.get_available_providers()
    wanted = [*settings.installed, *(provider.name for provider in settings.providers)]
    missing = [name for name in wanted if name not in available]
    if missing:
        raise Unavailable(
            f"execution provider {missing[0]} is not part of the installed ONNX Runtime "
            f"{onnxruntime.__version__}, which has {', '.join(available)}"
        )


def _turn(providers: list[str]) -> AbstractContextManager[Any]:
    return nullcontext() if _ONE_AT_A_TIME.isdisjoint(providers) else _build_lock


@functools.cache
def _make_global_pool(intra_op_threads: int, inter_op_threads: int) -> None:
    """Before the first session that uses it; once, because the options are the server's."""
    import onnxruntime

    onnxruntime.set_global_thread_pool_sizes(intra_op_threads, inter_op_threads)


def _session_options(onnxruntime: Any, settings: SessionSettings, model_directory: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    if settings.global_pool is None:
        # Asked to choose, ORT counts and uses all cores, also those that are not for this model.
        options.intra_op_num_threads = settings.intra_op_threads or len(usable_cores())
        options.inter_op_num_threads = settings.inter_op_threads
    else:
        options.use_per_session_threads = False
    if settings.parallel:
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, settings.graph_level
    )
    options.enable_cpu_mem_arena = settings.memory_arena
    options.enable_mem_pattern = settings.memory_pattern
    # A spinning pool takes the core that the event loop and other instances need.
    entries = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}
    entries.update(settings.entries)
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    for library in settings.library_files:
        options.register_custom_ops_library(str(_library_file(library, model_directory)))
    return options


def _library_file(name: str, model_directory: Path) -> Path:
    """By its absolute path, or in the model's directory, or below that in the repository."""
    if name.startswith("/"):
        return Path(name)
    try:
        places = [resolve_inside(root, name, follow_links=True) for root in _roots(model_directory)]
    except OutsideRoot as error:
        raise InvalidArgument(
            f"custom operator library '{name}' can not be found: {error}"
        ) from error
    return next((path for path in places if path.is_file()), places[0])


def _roots(model_directory: Path) -> tuple[Path, Path]:
    return model_directory, model_directory.parent


def usable_cores() -> frozenset[int]:
    """Those of the calling thread."""
    if not hasattr(os, "sched_getaffinity"):  # not on Linux: threads can not be told where to run
        return frozenset(range(os.cpu_count() or 1))
    return frozenset(os.sched_getaffinity(0))


def ort_fault(error: Exception) -> RuntimeFault:
    if isinstance(error, RuntimeFault):
        return error
    match = _ORT_ERROR.search(str(error))
    if match is None:
        return Internal(f"onnx runtime error 1: {error}")
    return Internal(f"onnx runtime error {match[1]}: {match[3]}")
