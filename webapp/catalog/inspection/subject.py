"""What is inspected, what is asked of it, and what has been found so far: plain values."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webapp.catalog.tensors import Tensor as Tensor, tensor_of as tensor_of


class CheckFailed(Exception):
    """A check's hard "no": the evidence, and what the person can do about it."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Outcome:
    status: str  # passed | warned | failed | skipped
    detail: str
    fix: str = ""


def passed(detail: str) -> Outcome:
    return Outcome("passed", detail)


def warned(detail: str, fix: str) -> Outcome:
    return Outcome("warned", detail, fix)


def skipped(detail: str) -> Outcome:
    return Outcome("skipped", detail)


@dataclass(frozen=True, slots=True)
class Limits:
    max_upload_bytes: int
    max_unpacked_bytes: int
    max_files: int
    max_ratio: int
    memory_bytes: int
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class PartDigest:
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Contract:
    """What clients of the version in production rely on."""

    version: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The request the parent writes to the child's standard input."""

    model_name: str
    source_name: str
    declared_size_bytes: int
    declared_sha256: str
    parts: tuple[PartDigest, ...]
    config_text: str
    samples_name: str  # "" when there are none
    published_folder: str  # a recheck: the files are those in service, to be read only; else ""
    published: dict[str, str]  # file name → SHA-256 recorded at publication, for a recheck
    production: Contract | None
    limits: Limits

    @property
    def recheck(self) -> bool:
        return bool(self.published_folder)


@dataclass(slots=True)
class Subject:
    """The version under inspection. Everything it may touch lies in `work`.

    work/payload   the bytes as uploaded      work/content/  the version's folder as published
    work/samples   samples the person gave
    """

    work: Path
    assignment: Assignment
    config_text: str = ""
    config: Any = None  # inference_runtime.pb.ModelConfig once read
    payload_sha256: str = ""
    proto: Any = None  # onnx.ModelProto, without its external data
    session: Any = None  # onnxruntime.InferenceSession
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    dim_names: dict[str, list[str]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def payload(self) -> Path:
        return self.work / "payload"

    @property
    def content(self) -> Path:
        published = self.assignment.published_folder
        return Path(published) if published else self.work / "content"

    @property
    def model_file(self) -> Path:
        return self.content / "model.onnx"


def assignment_of(raw: dict[str, Any]) -> Assignment:
    production = raw["production"]
    return Assignment(
        **{
            **raw,
            "parts": tuple(PartDigest(**part) for part in raw["parts"]),
            "limits": Limits(**raw["limits"]),
            "production": production
            and Contract(
                version=production["version"],
                inputs=tuple(tensor_of(row) for row in production["inputs"]),
                outputs=tuple(tensor_of(row) for row in production["outputs"]),
            ),
        }
    )
