"""RuntimeClient: the standard protocol over gRPC, the extensions of ours over HTTP."""

from collections.abc import Sequence
from typing import Any

from tritonclient.grpc.model_config_pb2 import ModelConfig

from webapp.runtime_client.errors import RuntimeLacks, RuntimeRefused
from webapp.runtime_client.grpc_calls import GrpcCalls
from webapp.runtime_client.http_calls import (
    STATISTICS_PATH,
    TRAFFIC_TABLES_PATH,
    HttpCalls,
    tables_of,
    traffic_path,
)
from webapp.runtime_client.types import (
    STATISTICS,
    TRAFFIC,
    IndexEntry,
    InferAnswer,
    ModelMetadata,
    ServerMetadata,
    Tensor,
    TrafficTable,
    VersionStatistics,
)

DEFAULT_SECONDS = 5.0
LOAD_SECONDS = 600.0


class RuntimeClient:
    """See RuntimeConnection for what the methods promise. Opens no socket before the first call."""

    def __init__(
        self,
        http_address: str,
        grpc_address: str,
        timeout: float = DEFAULT_SECONDS,
        *,
        metrics_address: str = "",
        load_timeout: float = LOAD_SECONDS,
    ) -> None:
        self._grpc = GrpcCalls(grpc_address, timeout, load_timeout)
        self._http = HttpCalls(http_address, timeout)
        self._metrics = HttpCalls(metrics_address, timeout) if metrics_address else self._http

    # -- the standard protocol ----------------------------------------------------------------
    def live(self, *, timeout: float | None = None) -> bool:
        return self._grpc.live(timeout)

    def ready(self, *, timeout: float | None = None) -> bool:
        return self._grpc.ready(timeout)

    def model_ready(self, name: str, version: int | None = None) -> bool:
        return self._grpc.model_ready(name, version)

    def metadata(self, *, timeout: float | None = None) -> ServerMetadata:
        return self._grpc.metadata(timeout)

    def index(self, *, timeout: float | None = None) -> list[IndexEntry]:
        return self._grpc.index(timeout)

    def load(
        self, name: str, config_json: str | None = None, *, timeout: float | None = None
    ) -> None:
        self._grpc.load(name, config_json, timeout)

    def unload(self, name: str, *, timeout: float | None = None) -> None:
        self._grpc.unload(name, timeout)

    def model_metadata(self, name: str, version: int | None = None) -> ModelMetadata:
        return self._grpc.model_metadata(name, version)

    def model_config(self, name: str, version: int | None = None) -> ModelConfig:
        return self._grpc.model_config(name, version)

    def statistics(
        self, name: str = "", version: int | None = None, *, timeout: float | None = None
    ) -> list[VersionStatistics]:
        return self._grpc.statistics(name, version, timeout)

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
        return self._grpc.infer(name, inputs, version, outputs, request_id, timeout)

    def metrics_text(self, *, timeout: float | None = None) -> str:
        return self._metrics.text("/metrics", timeout=timeout)

    # -- extensions of ours -------------------------------------------------------------------
    def traffic_tables(self, *, timeout: float | None = None) -> list[TrafficTable]:
        return tables_of(self._extension(TRAFFIC, "GET", TRAFFIC_TABLES_PATH, timeout=timeout))

    def traffic_get(self, name: str, *, timeout: float | None = None) -> TrafficTable | None:
        try:
            body = self._extension(TRAFFIC, "GET", traffic_path(name), timeout=timeout)
        except RuntimeRefused as refusal:
            if refusal.status == 404:
                return None
            raise
        return TrafficTable.from_wire(body)

    def traffic_put(self, table: TrafficTable, *, timeout: float | None = None) -> TrafficTable:
        body = self._extension(
            TRAFFIC, "PUT", traffic_path(table.model), table.to_wire(), timeout=timeout
        )
        return TrafficTable.from_wire(body)

    def traffic_delete(self, name: str, *, generation: int, timeout: float | None = None) -> None:
        path = traffic_path(name, generation=generation)
        try:
            self._extension(TRAFFIC, "DELETE", path, timeout=timeout)
        except RuntimeRefused as refusal:
            if refusal.status != 404:  # there is no such table: what was asked for
                raise

    def switchyard_statistics(self, *, timeout: float | None = None) -> dict[str, Any]:
        return self._extension(STATISTICS, "GET", STATISTICS_PATH, timeout=timeout)

    def close(self) -> None:
        self._grpc.close()
        self._http.close()
        self._metrics.close()

    def _extension(
        self,
        extension: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float | None,
    ) -> dict[str, Any]:
        """Asks first and looks at the announced extensions only after a "no".

        So the usual case is one call, and nothing remembered goes stale when another server
        takes over the address.
        """
        try:
            return self._http.json(method, path, body, timeout=timeout)
        except RuntimeRefused:
            if not self.metadata(timeout=timeout).has(extension):
                raise RuntimeLacks(extension) from None
            raise
