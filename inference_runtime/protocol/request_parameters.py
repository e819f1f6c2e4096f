"""Request-level parameters: which keys mean something, which are the model's, which are refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from inference_runtime.errors import InvalidArgument

RESERVED_PREFIX: Final = "triton_"


@dataclass(slots=True)
class RequestParameters:
    """What the parameters of one request came to. `custom` is what the model will see."""

    custom: dict[str, Any] = field(default_factory=dict)
    priority: int = 0
    timeout_us: int = 0
    sequence_id: int | str = 0
    sequence_start: bool = False
    sequence_end: bool = False
    binary_default: bool = False
    empty_final: bool = False

    def read(
        self, entries: Mapping[str, Any], readers: Mapping[str, "Reader"], other: "Reader"
    ) -> "RequestParameters":
        for key, value in entries.items():
            readers.get(key, other)(self, key, value)
        return self

    def identity(self) -> tuple[Any, ...]:
        """Equal for parameters that mean the same; hashable."""
        return (
            tuple((key, type(value), value) for key, value in self.custom.items()),
            self.priority,
            self.timeout_us,
            self.sequence_id,
            type(self.sequence_id),
            self.sequence_start,
            self.sequence_end,
            self.binary_default,
            self.empty_final,
        )


Reader = Callable[[RequestParameters, str, Any], None]


def refuse_reserved(key: str, allowed: str) -> None:
    if key.startswith(RESERVED_PREFIX):
        raise InvalidArgument(
            f"parameter keys starting with 'triton_' are reserved for Triton usage{allowed}"
        )
