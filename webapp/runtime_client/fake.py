"""An in-memory runtime over a real repository directory, for tests of the control plane.

It follows the protocol where the control plane depends on it: version policies, all-or-nothing
loads, sticky overrides, index states and reasons, traffic tables with generations. A model echoes
its inputs. What it cannot show (timing, real outputs) belongs to tests with a runtime process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from webapp.runtime_client.errors import RuntimeLacks, RuntimeRefused, RuntimeUnreachable
from webapp.runtime_client.types import (
    READY,
    STATISTICS,
    TRAFFIC,
    UNLOADED,
    IndexEntry,
    InferAnswer,
    ModelMetadata,
    ServerMetadata,
    Tensor,
    TrafficTable,
    VersionStatistics,
)

_POLL_FAILED = "failed to load '{}', failed to poll from model repository"


@dataclass
class _Model:
    config: ModelConfig = field(default_factory=ModelConfig)
    states: dict[int, tuple[str, str]] = field(default_factory=dict)  # version → state, reason
    counts: dict[int, int] = field(default_factory=dict)

    def ready(self) -> list[int]:
        return sorted(number for number, (state, _) in self.states.items() if state == READY)


class FakeRuntime:
    """`down`, `extensions`, `refuse_load` and `load_calls` are for the test to set and read."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.down = False
        self.extensions: tuple[str, ...] = ("model_repository", "statistics", TRAFFIC, STATISTICS)
        self.refuse_load: dict[str, str] = {}  # model → the text to refuse with
        self.load_calls: list[tuple[str, tuple[int, ...]]] = []  # model, versions then ready
        self._models: dict[str, _Model] = {}
        self._tables: dict[str, TrafficTable] = {}
        self._lock = RLock()

    def restart(self, *, keep_state: bool) -> None:
        with self._lock:
            loaded = [name for name, model in self._models.items() if model.ready()]
            self._models.clear()
            if keep_state:
                for name in loaded:
                    self.load(name)
            else:
                self._tables.clear()

    # -- the standard protocol ----------------------------------------------------------------
    def live(self, *, timeout: float | None = None) -> bool:
        self._reach()
        return True

    def ready(self, *, timeout: float | None = None) -> bool:
        self._reach()
        states = [state for model in self._models.values() for state in model.states.values()]
        return all(state == READY or reason == UNLOADED for state, reason in states)

    def model_ready(self, name: str, version: int | None = None) -> bool:
        self._reach()
        ready = self._known(name).ready()
        return bool(ready) if version is None else version in ready

    def metadata(self, *, timeout: float | None = None) -> ServerMetadata:
        self._reach()
        return ServerMetadata("fake", "1.0", self.extensions)

    def index(self, *, timeout: float | None = None) -> list[IndexEntry]:
        self._reach()
        entries = []
        for directory in sorted(path for path in self.repository.iterdir() if path.is_dir()):
            model = self._models.get(directory.name)
            if model is None or not model.states:
                entries.append(IndexEntry(directory.name, None))
                continue
            entries += [
                IndexEntry(directory.name, number, state, reason)
                for number, (state, reason) in sorted(model.states.items())
            ]
        return entries

    def load(
        self, name: str, config_json: str | None = None, *, timeout: float | None = None
    ) -> None:
        self._reach()
        with self._lock:
            config = self._polled(name, config_json)
            wanted = self._chosen(name, config)
            failures = [number for number in wanted if not self._loadable(name, number)]
            model = self._models.setdefault(name, _Model())
            if failures or name in self.refuse_load:
                self._fail(name, model, failures or wanted)
            model.config = config
            model.states = dict.fromkeys(model.states, ("UNAVAILABLE", UNLOADED)) | dict.fromkeys(
                wanted, (READY, "")
            )
            self.load_calls.append((name, tuple(model.ready())))

    def unload(self, name: str, *, timeout: float | None = None) -> None:
        self._reach()
        with self._lock:
            model = self._models.get(name)
            if model is not None:
                model.states = dict.fromkeys(model.states, ("UNAVAILABLE", UNLOADED))

    def model_metadata(self, name: str, version: int | None = None) -> ModelMetadata:
        self._reach()
        self._serving(name, version)
        return ModelMetadata(name, tuple(self._known(name).ready()), "onnxruntime_onnx", (), ())

    def model_config(self, name: str, version: int | None = None) -> ModelConfig:
        self._reach()
        self._serving(name, version)
        return self._known(name).config

    def statistics(
        self, name: str = "", version: int | None = None, *, timeout: float | None = None
    ) -> list[VersionStatistics]:
        self._reach()
        if name and not self._models.get(name, _Model()).ready():
            raise RuntimeRefused(f"requested model '{name}' is not available", 400)
        return [
            VersionStatistics(
                model=model_name,
                version=number,
                inference_count=model.counts.get(number, 0),
                execution_count=model.counts.get(number, 0),
                success_count=model.counts.get(number, 0),
                success_ns=0,
                fail_count=0,
                queue_ns=0,
                compute_input_ns=0,
                compute_infer_ns=0,
                compute_output_ns=0,
            )
            for model_name, model in sorted(self._models.items())
            for number in model.ready()
            if name in ("", model_name) and version in (None, number)
        ]

    def infer(
        self,
        name: str,
        inputs: Sequence[Tensor],
        *,
        version: int | None = None,
        outputs: Sequence[str] = (),
        request_id: str = "",
        timeout: float | None = None,
    ) -> InferAnswer:
        self._reach()
        with self._lock:
            number = self._serving(name, version)
            counts = self._known(name).counts
            counts[number] = counts.get(number, 0) + 1
        return InferAnswer(name, number, tuple(inputs), request_id)

    def metrics_text(self, *, timeout: float | None = None) -> str:
        self._reach()
        lines = ["# TYPE nv_inference_request_success counter"]
        for one in self.statistics():
            labels = f'model="{one.model}",version="{one.version}"'
            lines.append(f"nv_inference_request_success{{{labels}}} {one.success_count}")
        return "\n".join(lines) + "\n"

    # -- extensions of ours -------------------------------------------------------------------
    def traffic_tables(self, *, timeout: float | None = None) -> list[TrafficTable]:
        self._reach(TRAFFIC)
        return list(self._tables.values())

    def traffic_get(self, name: str, *, timeout: float | None = None) -> TrafficTable | None:
        self._reach(TRAFFIC)
        return self._tables.get(name)

    def traffic_put(self, table: TrafficTable, *, timeout: float | None = None) -> TrafficTable:
        self._reach(TRAFFIC)
        if abs(sum(arm.weight for arm in table.arms) - 1) > 1e-6:
            raise RuntimeRefused("weights must add up to 1", 400)
        with self._lock:
            ready = self._models.get(table.model, _Model()).ready()
            for arm in table.arms:
                if arm.version not in ready:
                    raise RuntimeRefused(
                        f"model '{table.model}' version {arm.version} is not ready", 400
                    )
            applied = self._tables.get(table.model)
            if applied is not None and applied.generation >= table.generation:
                if applied.to_wire() != table.to_wire():
                    raise RuntimeRefused(f"generation {applied.generation} is applied already", 409)
                return applied
            self._tables[table.model] = TrafficTable.from_wire(table.to_wire())
            return self._tables[table.model]

    def traffic_delete(self, name: str, *, generation: int, timeout: float | None = None) -> None:
        self._reach(TRAFFIC)
        with self._lock:
            applied = self._tables.get(name)
            if applied is not None and applied.generation > generation:
                raise RuntimeRefused(f"generation {applied.generation} is applied already", 409)
            self._tables.pop(name, None)

    def switchyard_statistics(self, *, timeout: float | None = None) -> dict[str, Any]:
        self._reach(STATISTICS)
        return {"process": {"epoch": str(id(self))}, "gpus": [], "gpu_note": "fake", "models": []}

    def close(self) -> None:
        pass

    # -- inside -------------------------------------------------------------------------------
    def _reach(self, extension: str = "") -> None:
        if self.down:
            raise RuntimeUnreachable("fake: Connection refused")
        if extension and extension not in self.extensions:
            raise RuntimeLacks(extension)

    def _known(self, name: str) -> _Model:
        if name not in self._models:
            raise RuntimeRefused(f"Request for unknown model: '{name}' is not found", 404)
        return self._models[name]

    def _serving(self, name: str, version: int | None) -> int:
        ready = self._known(name).ready()
        if version is None:
            if not ready:
                text = f"Request for unknown model: '{name}' has no available versions"
                raise RuntimeRefused(text, 404)
            table = self._tables.get(name)
            heaviest = max(table.arms, key=lambda arm: arm.weight) if table else None
            return heaviest.version if heaviest else ready[-1]
        if version not in self._known(name).states:
            text = f"Request for unknown model: '{name}' version {version} is not found"
            raise RuntimeRefused(text, 404)
        if version not in ready:
            text = f"Request for unknown model: '{name}' version {version} is not at ready state"
            raise RuntimeRefused(text, 503)
        return version

    def _polled(self, name: str, config_json: str | None) -> ModelConfig:
        directory = self.repository / name
        if not directory.is_dir():
            raise RuntimeRefused(_POLL_FAILED.format(name), 500)
        config = ModelConfig()
        file = directory / "config.pbtxt"
        try:
            if config_json is not None:
                json_format.Parse(config_json, config)
            elif file.exists():
                text_format.Parse(file.read_text(), config)
        except (json_format.ParseError, text_format.ParseError):
            raise RuntimeRefused(_POLL_FAILED.format(name), 500) from None
        if config.name not in ("", name) or config.max_batch_size < 0:
            raise RuntimeRefused(_POLL_FAILED.format(name), 500)
        return config

    def _chosen(self, name: str, config: ModelConfig) -> list[int]:
        present = sorted(
            int(path.name)
            for path in (self.repository / name).iterdir()
            if path.is_dir() and path.name.isdigit()
        )
        policy = config.version_policy
        if policy.HasField("specific"):
            chosen = [number for number in present if number in policy.specific.versions]
        elif policy.HasField("all"):
            chosen = present
        else:
            chosen = present[-max(policy.latest.num_versions, 1) :]
        if not chosen:
            raise RuntimeRefused(
                f"load failed for model '{name}': at least one version must be available under "
                f"the version policy of model '{name}'\n",
                400,
            )
        return chosen

    def _loadable(self, name: str, number: int) -> bool:
        file = self.repository / name / str(number) / "model.onnx"
        return file.exists() and b"broken" not in file.read_bytes()[:64]

    def _fail(self, name: str, model: _Model, failures: list[int]) -> None:
        reason = self.refuse_load.get(name, "the file cannot be read as a model")
        for number in failures:
            if number not in model.ready():
                model.states[number] = ("UNAVAILABLE", reason)
        parts = "".join(
            f"version {number} is at UNAVAILABLE state: {reason};\n" for number in failures
        )
        raise RuntimeRefused(f"load failed for model '{name}': {parts}".strip(), 400)
