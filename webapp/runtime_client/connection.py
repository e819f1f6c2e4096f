"""What every connection to a runtime can do, real or in memory."""

from collections.abc import Sequence
from typing import Any, Protocol

from tritonclient.grpc.model_config_pb2 import ModelConfig

from webapp.runtime_client.types import (
    IndexEntry,
    InferAnswer,
    ModelMetadata,
    ServerMetadata,
    Tensor,
    TrafficTable,
    VersionStatistics,
)


class RuntimeConnection(Protocol):
    """Each method raises RuntimeUnreachable, RuntimeRefused or, where named, RuntimeLacks.

    May be shared between threads. `timeout` is in seconds and replaces the connection's own.
    """

    def live(self, *, timeout: float | None = None) -> bool: ...

    def ready(self, *, timeout: float | None = None) -> bool: ...

    def model_ready(self, name: str, version: int | None = None) -> bool: ...

    def metadata(self, *, timeout: float | None = None) -> ServerMetadata: ...

    def index(self, *, timeout: float | None = None) -> list[IndexEntry]: ...

    def load(
        self, name: str, config_json: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Returns when the load has finished; old versions serve until the new ones are ready."""

    def unload(self, name: str, *, timeout: float | None = None) -> None:
        """Returns when the versions take no new requests; those in flight are still answered."""

    def model_metadata(self, name: str, version: int | None = None) -> ModelMetadata: ...

    def model_config(self, name: str, version: int | None = None) -> ModelConfig: ...

    def statistics(
        self, name: str = "", version: int | None = None, *, timeout: float | None = None
    ) -> list[VersionStatistics]: ...

    def infer(
        self,
        name: str,
        inputs: Sequence[Tensor],
        *,
        version: int | None = None,
        outputs: Sequence[str] = (),
        request_id: str = "",
        timeout: float | None = None,
    ) -> InferAnswer: ...

    def metrics_text(self, *, timeout: float | None = None) -> str: ...

    def traffic_tables(self, *, timeout: float | None = None) -> list[TrafficTable]:
        """Raises RuntimeLacks on a runtime without traffic tables, as do the next three."""

    def traffic_get(self, name: str, *, timeout: float | None = None) -> TrafficTable | None: ...

    def traffic_put(self, table: TrafficTable, *, timeout: float | None = None) -> TrafficTable:
        """The applied table. Refused with status 409 when the runtime has a newer generation."""

    def traffic_delete(
        self, name: str, *, generation: int, timeout: float | None = None
    ) -> None: ...

    def switchyard_statistics(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Raises RuntimeLacks on a runtime that is not ours."""

    def close(self) -> None: ...
