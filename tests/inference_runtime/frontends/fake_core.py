"""A small runtime with the methods front ends call: models made of numpy, answered at once or when told."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from inference_runtime import pb
from inference_runtime.errors import (
    Cancelled,
    Conflict,
    FailureReason,
    InvalidArgument,
    NotFound,
    RuntimeFault,
    Unavailable,
)
from inference_runtime.shared_memory.region_use import RegionUse
from inference_runtime.shared_memory.regions import Regions
from inference_runtime.spec.datatypes import BY_WIRE
from inference_runtime.spec.messages import (
    Answer,
    Done,
    InferRequest,
    InferResponse,
    ResponseHead,
    TensorHead,
)
from inference_runtime.spec.region_span import RegionPlan
from inference_runtime.telemetry.logs import RuntimeLog
from inference_runtime.telemetry.trace_settings import TraceOptions, TraceSettings, TraceValues

Compute = Callable[[InferRequest], list[tuple[str, str, tuple[int, ...], bytes]]]


@dataclass(frozen=True)
class Entry:
    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


@dataclass
class Config:
    batching: bool = True
    decoupled: bool = False


@dataclass
class Version:
    """What front ends read of a LoadedVersion."""

    number: int = 1
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    config: Config = field(default_factory=Config)

    @property
    def number_text(self) -> str:
        return str(self.number)


@dataclass
class Model:
    name: str
    inputs: list[tuple[str, str, list[int]]]
    outputs: list[tuple[str, str, list[int]]]
    compute: Compute
    max_batch_size: int = 8
    version: Version = field(default_factory=Version)

    def config(self) -> pb.ModelConfig:
        config = pb.ModelConfig(name=self.name, max_batch_size=self.max_batch_size, backend="fake")
        for target, tensors in ((config.input, self.inputs), (config.output, self.outputs)):
            for name, datatype, dims in tensors:
                target.add(name=name, data_type=BY_WIRE[datatype].number, dims=dims)
        config.instance_group.add(name=self.name, count=1, kind="KIND_CPU")
        return config


def add_sub(request: InferRequest) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    first, second = (np.frombuffer(data, np.int32) for data in request.data)
    if len(first) != len(second):
        raise InvalidArgument("the inputs have different sizes")
    shape = request.head.inputs[0].shape
    return [
        ("OUTPUT0", "INT32", shape, (first + second).tobytes()),
        ("OUTPUT1", "INT32", shape, (first - second).tobytes()),
    ]


def echo(request: InferRequest) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    return [
        (tensor.name.replace("INPUT", "OUTPUT"), tensor.datatype, tensor.shape, bytes(data))
        for tensor, data in zip(request.head.inputs, request.data, strict=True)
    ]


def fail(request: InferRequest) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    raise InvalidArgument("the model does not like it")


MODELS = [
    Model(
        "simple",
        [("INPUT0", "INT32", [16]), ("INPUT1", "INT32", [16])],
        [("OUTPUT0", "INT32", [16]), ("OUTPUT1", "INT32", [16])],
        add_sub,
    ),
    Model("ident", [("INPUT0", "FP32", [-1])], [("OUTPUT0", "FP32", [-1])], echo),
    Model("ident_str", [("INPUT0", "BYTES", [1])], [("OUTPUT0", "BYTES", [1])], echo),
    Model("two_free", [("INPUT0", "FP32", [-1, -1])], [("OUTPUT0", "FP32", [-1, -1])], echo),
    Model("many", [("INPUT0", "BYTES", [2])], [("OUTPUT0", "BYTES", [2])], echo),
    Model(
        "three",
        [(f"INPUT{number}", "FP32", [-1]) for number in range(3)],
        [(f"OUTPUT{number}", "FP32", [-1]) for number in range(3)],
        echo,
    ),
    Model("failing", [("INPUT0", "FP32", [-1])], [("OUTPUT0", "FP32", [-1])], fail),
    Model("held", [("INPUT0", "FP32", [-1])], [("OUTPUT0", "FP32", [-1])], echo),
]


class FakeCore:
    """Requests to the model `held` stay in `waiting` until `release`; all others are answered at once."""

    def __init__(self) -> None:
        self.models = {model.name: replace(model, version=Version()) for model in MODELS}
        self.waiting: list[InferRequest] = []
        self.cancelled: list[InferRequest] = []
        self.seen: list[InferRequest] = []
        self.refused: list[FailureReason] = []
        self.keep_seen = True
        self.loaded: list[tuple[str, dict[str, Any]]] = []
        self.unloaded: list[tuple[str, bool]] = []
        self.heads: dict[Any, ResponseHead] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.pools: list[dict[str, Any]] = []
        self.arm = ""
        self.unit = ""
        self.log = RuntimeLog()
        self.traces = TraceSettings(TraceOptions(file="trace.json"))
        self.is_live = True
        self.is_ready = True
        self.arrival = asyncio.Event()
        self.load_gate: asyncio.Event | None = None
        self.regions = Regions()
        self.spoil: Callable[[InferResponse], InferResponse] | None = None

    def infer(self, request: InferRequest) -> None:
        if self.keep_seen:
            self.seen.append(request)
        try:
            model = self._model(request.head.model_name)
        except RuntimeFault as fault:
            request.done(request, fault)
            return
        request.version = model.version
        request.arm = self.arm
        if model.name == "held":
            self.waiting.append(request)
            self.arrival.set()
        else:
            request.done(request, self._answer(model, request))

    def release(self, request: InferRequest | None = None) -> None:
        chosen = [request] if request is not None else list(self.waiting)
        for one in chosen:
            self.waiting.remove(one)
            one.done(one, self._answer(self.models["held"], one))

    def cancel(self, request: InferRequest) -> None:
        self.cancelled.append(request)
        if request in self.waiting:
            self.waiting.remove(request)
            request.done(request, Cancelled("cancelled"))

    def count_refused(self, reason: FailureReason, count: int = 1) -> None:
        self.refused += [reason] * count

    def unit_header(self, model_name: str) -> str:
        return self.unit

    def region_use(
        self, plan: RegionPlan, done: Done, *, local: bool, in_turn: bool = False
    ) -> RegionUse:
        return RegionUse(self.regions, plan, done, local=local, in_turn=in_turn)

    def live(self) -> bool:
        return self.is_live

    def ready(self) -> bool:
        return self.is_ready

    async def confirm_ready(self, name: str = "", version: str = "") -> None:
        """Nobody objects."""

    def model_ready(self, name: str, version: str) -> bool:
        self._model(name)
        return version in ("", "1")

    def server_metadata(self) -> dict[str, Any]:
        return {"name": "triton", "version": "2.73.0", "extensions": ["statistics"]}

    def model_metadata(self, name: str, version: str) -> pb.ModelMetadataResponse:
        model = self._model(name)
        if version not in ("", "1"):
            raise NotFound(f"Request for unknown model: '{name}' version {version} is not found")
        answer = pb.ModelMetadataResponse(name=name, versions=["1"], platform="fake")
        for target, tensors in ((answer.inputs, model.inputs), (answer.outputs, model.outputs)):
            for tensor, datatype, dims in tensors:
                target.add(name=tensor, datatype=datatype, shape=[-1, *dims])
        return answer

    def model_config(self, name: str, version: str) -> pb.ModelConfig:
        return self._model(name).config()

    def model_statistics(self, name: str, version: str) -> pb.ModelStatisticsResponse:
        if name and name not in self.models:
            raise InvalidArgument(f"requested model '{name}' is not available")
        answer = pb.ModelStatisticsResponse()
        answer.model_stats.add(name=name or "simple", version="1", inference_count=3)
        return answer

    async def repository_index(self, ready_only: bool) -> list[Entry]:
        entries = [Entry(name, "1", "READY") for name in sorted(self.models)]
        return entries if ready_only else [*entries, Entry("never_loaded")]

    async def load(self, name: str, parameters: Mapping[str, Any]) -> None:
        if self.load_gate is not None:
            await self.load_gate.wait()
        if name == "broken":
            raise RuntimeFault(f"failed to load '{name}'")
        self.loaded.append((name, dict(parameters)))

    async def unload(self, name: str, *, unload_dependents: bool) -> None:
        self.unloaded.append((name, unload_dependents))

    @property
    def trace_options(self) -> TraceOptions:
        return self.traces.options

    def trace_settings(self, model: str) -> TraceValues:
        return self.traces.effective(model)

    def trace_change(self, model: str, changes: Mapping[str, Any]) -> TraceValues:
        self.traces.change(model, changes)
        return self.traces.effective(model)

    def metrics_text(self) -> bytes:
        return b'nv_inference_count{model="simple",version="1"} 3\n'

    def kv_cache_blocks(self) -> dict[str, float]:
        return {}

    def traffic_tables(self) -> list[dict[str, Any]]:
        return list(self.tables.values())

    def traffic_table(self, name: str) -> dict[str, Any]:
        if name not in self.tables:
            raise NotFound(f"no traffic table for model '{name}'")
        return self.tables[name]

    async def traffic_put(self, name: str, table: dict[str, Any]) -> dict[str, Any]:
        if table.get("generation", 0) < self.tables.get(name, {}).get("generation", 0):
            raise Conflict("a newer table is in force")
        self.tables[name] = table
        return table

    async def traffic_delete(self, name: str, generation: int | None) -> None:
        if generation is not None and generation < self.tables[name]["generation"]:
            raise Conflict("a newer table is in force")
        self.tables.pop(name, None)

    def slots(self) -> dict[str, Any]:
        return {"pools": self.pools}

    def slots_put(self, body: Any) -> dict[str, Any]:
        self.pools = body["pools"]
        return self.slots()

    def switchyard_statistics(self) -> dict[str, Any]:
        return {"process": {"pid": 1}, "gpus": [], "gpu_note": "none", "models": []}

    def _model(self, name: str) -> Model:
        if name == "busy":
            raise Unavailable("busy")
        if name not in self.models:
            raise NotFound(f"Request for unknown model: '{name}' is not found")
        return self.models[name]

    def _answer(self, model: Model, request: InferRequest) -> Answer:
        try:
            outputs = model.compute(request)
        except RuntimeFault as fault:
            return fault
        wanted = {output.name for output in request.head.outputs}
        unknown = wanted - {name for name, *_ in outputs}
        if unknown:
            return InvalidArgument(
                f"unexpected inference output '{unknown.pop()}' for model '{model.name}'"
            )
        kept = [output for output in outputs if not wanted or output[0] in wanted]
        key = (model.name, tuple((name, kind, shape) for name, kind, shape, _ in kept))
        head = self.heads.get(key)
        if head is None:
            tensors = tuple(TensorHead(name, kind, shape) for name, kind, shape, _ in kept)
            head = self.heads[key] = ResponseHead(model.name, "1", tensors)
        answer = InferResponse(head, [memoryview(data) for *_, data in kept])
        return self.spoil(answer) if self.spoil is not None else answer
