"""What a runtime's answers look like: frozen, free of protobuf and HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

TRAFFIC: Final = "switchyard_traffic"
STATISTICS: Final = "switchyard_statistics"

READY: Final = "READY"
UNLOADED: Final = "unloaded"  # the reason of an UNAVAILABLE version that was taken out on purpose


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    name: str
    version: str
    extensions: tuple[str, ...]

    def has(self, extension: str) -> bool:
        return extension in self.extensions


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the repository index. `version` is None for a model that was never loaded."""

    model: str
    version: int | None
    state: str = ""
    reason: str = ""

    @property
    def ready(self) -> bool:
        return self.state == READY


@dataclass(frozen=True, slots=True)
class TensorSpec:
    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    name: str
    versions: tuple[int, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    batch_size: int
    executions: int
    compute_ns: int


@dataclass(frozen=True, slots=True)
class VersionStatistics:
    """Cumulative since the version was loaded. Durations are sums over successful requests."""

    model: str
    version: int
    inference_count: int
    execution_count: int
    success_count: int
    success_ns: int
    fail_count: int
    queue_ns: int
    compute_input_ns: int
    compute_infer_ns: int
    compute_output_ns: int
    batches: tuple[BatchStatistics, ...] = ()


@dataclass(frozen=True, slots=True)
class TrafficArm:
    version: int
    role: str
    weight: float  # 0..1
    model: str = ""  # the repository model; "" means the table's own


@dataclass(frozen=True, slots=True)
class TrafficTable:
    model: str
    generation: int
    salt: str
    arms: tuple[TrafficArm, ...]
    unit_header: str = ""

    def to_wire(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "generation": self.generation,
            "salt": self.salt,
            "unit_header": self.unit_header,
            "arms": [
                {
                    "model": arm.model or self.model,
                    "version": arm.version,
                    "role": arm.role,
                    "weight": arm.weight,
                }
                for arm in self.arms
            ],
        }

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> "TrafficTable":
        return cls(
            model=body["model"],
            generation=int(body["generation"]),
            salt=body.get("salt", ""),
            unit_header=body.get("unit_header", ""),
            arms=tuple(
                TrafficArm(
                    version=int(arm["version"]),
                    role=arm["role"],
                    weight=float(arm["weight"]),
                    model=arm.get("model", body["model"]),
                )
                for arm in body["arms"]
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A named array. BYTES tensors are object arrays; BF16 ones are handed over as float32."""

    name: str
    datatype: str
    array: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class InferAnswer:
    model: str
    version: int
    outputs: tuple[Tensor, ...]
    request_id: str = ""

    def output(self, name: str) -> np.ndarray[Any, Any]:
        return next(tensor.array for tensor in self.outputs if tensor.name == name)
