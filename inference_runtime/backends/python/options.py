"""What a config and the command line say about the processes of a Python model; raises in Triton's words."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from inference_runtime.backends.base import ModelArtifact
from inference_runtime.errors import InvalidArgument, Unsupported
from inference_runtime.spec.layout import OutsideRoot, resolve_inside

MIB = 1 << 20
ENVIRONMENT = "EXECUTION_ENV_PATH"
_FORCE_CPU = "FORCE_CPU_ONLY_INPUT_TENSORS"
_MEMORY_LIMIT = "MEMORY_LIMIT_BYTES"
_LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC")
_PREFIX = "triton_python_backend_shm_region_"
# What a name of an instance may be made of: it goes into logs, thread names and memory names.
_PLAIN = re.compile(r"[^|&;<>()$`\\\"'*?\[\]#~=%\n\r]+")


@dataclass(frozen=True, slots=True)
class StubOptions:
    """Durations in seconds, sizes in bytes; 0 is no limit."""

    start_limit: float = 30.0  # between two signs of life of a process that starts
    finalize_limit: float = 30.0
    unload_limit: float = 120.0  # for executions that do not end, once the version is to go
    arena_size: int = 1 << 30
    memory_name: str = _PREFIX
    memory_limit: int = 0
    resource_limits: Mapping[str, int] = field(default_factory=dict)


def read_options(parameters: Mapping[str, str], options: Mapping[str, str]) -> StubOptions:
    """Of the model's parameters and of `--backend-config=python,…`; raises InvalidArgument or Unsupported."""
    force = parameters.get(_FORCE_CPU, "yes")
    if force not in ("yes", "no"):
        raise Unsupported(f"Incorrect value for {_FORCE_CPU}: {force}'")
    for name in ("shm-default-byte-size", "shm-growth-byte-size"):
        if _number(options, name, MIB) < MIB:
            raise InvalidArgument(f"{name} must be at least 1 MiB, got {options[name]}")
    for name in ("thread-pool-size", "shm_message_queue_size"):
        _number(options, name, 1)  # Triton's; nothing here has a size that they could set
    prefix = options.get("shm-region-prefix-name", _PREFIX)
    if not prefix:
        raise InvalidArgument("shared memory region prefix name must not be empty")
    return StubOptions(
        start_limit=_number(options, "stub-timeout-seconds", 30),
        finalize_limit=_number(options, "finalize-timeout-seconds", 30),
        unload_limit=_number(options, "unload-timeout-seconds", 120),
        arena_size=max(_number(options, "shm-max-byte-size", _usual_arena()), MIB),
        memory_name=prefix,
        memory_limit=_number(parameters, _MEMORY_LIMIT, 0)
        or _number(options, "memory-limit-bytes", 0),
        resource_limits=_resource_limits(parameters, options),
    )


def model_file(artifact: ModelArtifact, filename: str) -> str:
    """The path of the model's file; raises InvalidArgument when it is not there or has another ending."""
    name = filename or "model.py"
    if not name.endswith(".py"):
        raise InvalidArgument(f"Model name must end with '.py'. Model name is \"{name}\".")
    try:
        path = resolve_inside(artifact.directory, name, follow_links=True)
    except OutsideRoot as error:
        raise InvalidArgument(
            f"the Python model file must lie beside its version: {error}"
        ) from error
    if not path.is_file():
        raise InvalidArgument(f"Python model file not found in '{path}'")
    return str(path)


def check_instance_name(name: str) -> None:
    if not _PLAIN.fullmatch(name):
        raise InvalidArgument("Invalid stub name: contains invalid characters")


def _usual_arena() -> int:
    """Half of the machine's memory for each direction: a bound, not an amount that is taken."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


def _resource_limits(parameters: Mapping[str, str], options: Mapping[str, str]) -> dict[str, int]:
    """The model's own, and never more than the operator allows."""
    limits = {"RLIMIT_CORE": 0}
    for name in _LIMITS:
        wishes = [
            _number(parameters, name, 0),
            _number(options, name.lower().replace("_", "-"), 0),
        ]
        chosen = [wish for wish in wishes if wish]
        if chosen:
            limits[name] = min(chosen)
    return limits


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not (text.isdecimal() and text.isascii()):
        raise InvalidArgument(f"'{name}' of the python backend must be a number, got '{text}'")
    return int(text)
