"""What a runtime says of itself, asked with short limits and free of the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.errors import RuntimeLacks, RuntimeProblem, RuntimeUnreachable
from webapp.runtime_client.types import (
    TRAFFIC,
    UNLOADED,
    IndexEntry,
    ServerMetadata,
    TrafficTable,
)
from webapp.serving.choices import RuntimeHealth

PROBE_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Observation:
    health: RuntimeHealth
    reason: str = ""
    server: ServerMetadata | None = None
    index: tuple[IndexEntry, ...] = ()
    tables: Mapping[str, TrafficTable] = field(default_factory=dict)
    splits: bool = False  # it has traffic tables

    @property
    def answered(self) -> bool:
        return self.server is not None

    def states(self, model: str) -> dict[int, str]:
        return {
            entry.version: entry.state
            for entry in self.index
            if entry.model == model and entry.version is not None
        }

    def entry(self, model: str, version: int) -> IndexEntry | None:
        return next(
            (one for one in self.index if (one.model, one.version) == (model, version)), None
        )


def observe(client: RuntimeConnection) -> Observation:
    """Never raises for what a runtime may do."""
    try:
        server = client.metadata(timeout=PROBE_SECONDS)
        index = tuple(client.index(timeout=PROBE_SECONDS))
        ready = client.ready(timeout=PROBE_SECONDS)
    except RuntimeUnreachable as problem:
        return Observation(RuntimeHealth.UNREACHABLE, problem.text)
    except RuntimeProblem as problem:
        return Observation(RuntimeHealth.NOT_READY, f"It answers, but refuses: {problem.text}")
    reason = "" if ready else _why_not_ready(index)
    tables: dict[str, TrafficTable] = {}
    splits = server.has(TRAFFIC)
    if splits:
        try:
            tables = {one.model: one for one in client.traffic_tables(timeout=PROBE_SECONDS)}
        except RuntimeLacks:
            splits = False
        except RuntimeProblem as problem:
            splits = False
            reason = reason or f"gRPC answers, HTTP does not: {problem.text}"
    health = RuntimeHealth.NOT_READY if reason else RuntimeHealth.READY
    return Observation(health, reason, server, index, tables, splits)


def _why_not_ready(index: tuple[IndexEntry, ...]) -> str:
    failed = [
        f"{entry.model} version {entry.version} cannot be served: {entry.reason}"
        for entry in index
        if entry.state == "UNAVAILABLE" and entry.reason not in ("", UNLOADED)
    ]
    busy = [
        f"{entry.model} version {entry.version} is {entry.state.lower()}"
        for entry in index
        if entry.state in ("LOADING", "UNLOADING")
    ]
    return "; ".join(failed or busy) or "It says it is not ready, without a reason"
