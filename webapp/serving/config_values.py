"""The serving settings of a model as one value: read from a config, from a row, from a form. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from inference_runtime import pb

MAX_INSTANCES = 64
MAX_BATCH = 4096
MAX_DELAY_MICROSECONDS = 10_000_000
MAX_QUEUE = 1_000_000
MAX_TIMEOUT_MICROSECONDS = 3_600_000_000


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """`field` is the name of a setting, or "config" for the uploaded config as a whole."""

    field: str
    detail: str


class ConfigProblem(Exception):
    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.detail}" for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class ServingValues:
    """None leaves the choice to the artifact's own config or the runtime's default."""

    instance_count: int | None = None
    max_batch_size: int | None = None
    dynamic_batching: bool = True
    preferred_batch_sizes: tuple[int, ...] = ()  # empty: the largest possible batch
    max_queue_delay_microseconds: int = 0
    max_queue_size: int = 0  # 0: no limit
    default_timeout_microseconds: int = 0  # 0: requests wait as long as it takes

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"preferred_batch_sizes": list(self.preferred_batch_sizes)}


FIELDS = tuple(field.name for field in fields(ServingValues))
_LIMITS: dict[str, tuple[int, int]] = {
    "instance_count": (1, MAX_INSTANCES),
    "max_batch_size": (0, MAX_BATCH),
    "max_queue_delay_microseconds": (0, MAX_DELAY_MICROSECONDS),
    "max_queue_size": (0, MAX_QUEUE),
    "default_timeout_microseconds": (0, MAX_TIMEOUT_MICROSECONDS),
}
_OPTIONAL = frozenset({"instance_count", "max_batch_size"})


def read_values(given: Mapping[str, Any]) -> ServingValues:
    """From JSON. Left-out settings get their defaults; unknown ones are refused by name."""
    problems = [
        FieldProblem(name, f"there is no such setting; settings are {', '.join(FIELDS)}")
        for name in given
        if name not in FIELDS
    ]
    values: dict[str, Any] = {}
    for name in FIELDS:
        if name not in given:
            continue
        try:
            values[name] = _read(name, given[name])
        except ValueError as problem:
            problems.append(FieldProblem(name, str(problem)))
    if problems:
        raise ConfigProblem(problems)
    return ServingValues(**values)


def _read(name: str, value: Any) -> Any:
    if name == "dynamic_batching":
        if not isinstance(value, bool):
            raise ValueError("true or false is expected")
        return value
    if name == "preferred_batch_sizes":
        return _read_sizes(value)
    if value is None:
        if name in _OPTIONAL:
            return None
        raise ValueError("a whole number is expected; 0 means none")
    low, high = _LIMITS[name]
    return _whole(value, low, high)


def _read_sizes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) > 64:
        raise ValueError("a list of at most 64 batch sizes is expected, such as [4, 8]")
    return tuple(sorted({_whole(size, 1, MAX_BATCH) for size in value}))


def _whole(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number from {low} to {high} is expected")
    if not low <= value <= high:
        raise ValueError(f"{value} is not within {low} to {high}")
    return value


def lists_ports(config: pb.ModelConfig) -> bool:
    """A runtime completes nothing in a config that lists both inputs and outputs."""
    return bool(config.input) and bool(config.output)


def values_of(config: pb.ModelConfig) -> ServingValues:
    """What a config says about the settings, as the form's first values."""
    batching = config.dynamic_batching
    policy = batching.default_queue_policy
    own_scheduler = config.HasField("sequence_batching") or config.HasField("ensemble_scheduling")
    without_batcher = own_scheduler or (config.max_batch_size > 0 and lists_ports(config))
    counts = [group.count for group in config.instance_group if group.count > 0]
    return ServingValues(
        instance_count=counts[0] if counts else None,
        max_batch_size=config.max_batch_size or None,
        dynamic_batching=config.HasField("dynamic_batching") or not without_batcher,
        preferred_batch_sizes=tuple(sorted(set(batching.preferred_batch_size))),
        max_queue_delay_microseconds=batching.max_queue_delay_microseconds,
        max_queue_size=policy.max_queue_size,
        default_timeout_microseconds=policy.default_timeout_microseconds,
    )
