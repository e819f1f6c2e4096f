"""An input or output of a model as clients see it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tensor:
    """`shape` holds -1 for what may vary, the batch axis included."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


def tensor_of(raw: dict[str, Any]) -> Tensor:
    return Tensor(str(raw["name"]), str(raw["datatype"]), tuple(int(dim) for dim in raw["shape"]))


def shape_words(shape: Sequence[int]) -> str:
    """`[any, 3, 224, 224]`: "any" reads faster than -1."""
    return f"[{', '.join('any' if dim < 0 else str(dim) for dim in shape)}]"
