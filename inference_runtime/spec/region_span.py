"""Where a tensor lies in a client's shared memory: a span of a region, as requests name it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RegionSpan:
    region: str
    offset: int  # from the start of the region, not of the object behind it
    byte_size: int


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """The spans of one request: of its inputs by their position, of its outputs by name."""

    inputs: Mapping[int, RegionSpan] = field(default_factory=dict)
    outputs: Mapping[str, RegionSpan] = field(default_factory=dict)

    def spans(self) -> Iterator[RegionSpan]:
        yield from self.inputs.values()
        yield from self.outputs.values()
