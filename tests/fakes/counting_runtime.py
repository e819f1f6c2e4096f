"""A runtime that serves nothing but counts what the test says, for the sampler to read."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from inference_runtime.spec.latency import bucket_of
from webapp.runtime_client.connections import stand_in
from webapp.runtime_client.errors import RuntimeUnreachable

_COUNTERS = (
    "requests", "successes", "failures", "client_faults", "rejections", "timeouts",
    "cancellations", "inferences", "executions", "queue_ns", "compute_ns",
)  # fmt: skip


@dataclass
class Arm:
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTERS, 0))
    latency: dict[int, int] = field(default_factory=dict)
    generation: int = 0


@dataclass
class CountingRuntime:
    """`down`, `delay`, `epoch`, `pending` and `gpus` are for the test to set."""

    epoch: str = "first"
    down: bool = False
    delay: float = 0.0
    cpu_seconds: float = 1.0
    gpus: list[dict[str, Any]] = field(default_factory=list)
    gpu_note: str = "no NVIDIA driver on this machine"
    pending: dict[tuple[str, int], int] = field(default_factory=dict)
    inflight: dict[tuple[str, int], int] = field(default_factory=dict)
    arms: dict[tuple[str, int], dict[str, Arm]] = field(default_factory=dict)
    reads: int = 0

    def load(self, model: str, version: int) -> None:
        self.arms.setdefault((model, version), {})

    def unload(self, model: str, version: int) -> None:
        del self.arms[model, version]

    def restart(self, epoch: str) -> None:
        self.epoch = epoch
        self.cpu_seconds = 0.1
        for arms in self.arms.values():
            arms.clear()

    def serve(
        self,
        model: str,
        version: int,
        *,
        arm: str = "stable",
        requests: int = 1,
        latency_ms: float = 5.0,
        batch: int = 1,
        **ends: int,
    ) -> None:
        """`ends`: how many of the requests ended otherwise, such as failures=2."""
        counted = self.arms.setdefault((model, version), {}).setdefault(arm, Arm())
        successes = requests - sum(ends.values())
        counted.counts["requests"] += requests
        counted.counts["successes"] += successes
        counted.counts["inferences"] += successes
        counted.counts["executions"] += -(-successes // batch)
        counted.counts["queue_ns"] += int(successes * latency_ms * 0.2e6)
        counted.counts["compute_ns"] += int(successes * latency_ms * 0.7e6)
        for name, count in ends.items():
            counted.counts[name] += count
        bucket = bucket_of(int(latency_ms * 1e6))
        counted.latency[bucket] = counted.latency.get(bucket, 0) + successes

    def switchyard_statistics(self, *, timeout: float | None = None) -> dict[str, Any]:
        self.reads += 1
        if self.delay:
            time.sleep(min(self.delay, timeout or self.delay))
            if timeout is not None and self.delay > timeout:
                raise RuntimeUnreachable(f"did not answer within {timeout:g} s")
        if self.down:
            raise RuntimeUnreachable("127.0.0.1:1: Connection refused")
        self.cpu_seconds += 0.25
        return self.body()

    def body(self) -> dict[str, Any]:
        return {
            "process": {
                "started_at": "2026-01-01T00:00:00+00:00",
                "epoch": self.epoch,
                "pid": 1,
                "cpu_seconds": self.cpu_seconds,
                "memory_bytes": 200_000_000,
                "at_ns": time.monotonic_ns(),
            },
            "gpus": self.gpus,
            "gpu_note": "" if self.gpus else self.gpu_note,
            "models": [self._model(model, version) for model, version in self.arms],
        }

    def _model(self, model: str, version: int) -> dict[str, Any]:
        return {
            "model": model,
            "version": version,
            "state": "READY",
            "instances": 1,
            "pending": self.pending.get((model, version), 0),
            "inflight": self.inflight.get((model, version), 0),
            "arms": [
                {
                    "arm": name,
                    "generation": arm.generation,
                    **arm.counts,
                    "latency": {str(b): n for b, n in arm.latency.items()},
                }
                for name, arm in self.arms[model, version].items()
            ],
        }

    def close(self) -> None:
        pass

    @contextmanager
    def at(self, grpc_address: str) -> Iterator["CountingRuntime"]:
        """While inside, whoever connects to the address gets this runtime."""
        stand_in(grpc_address, self)  # type: ignore[arg-type]
        try:
            yield self
        finally:
            stand_in(grpc_address, None)
