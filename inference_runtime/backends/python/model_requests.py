"""What a model asks of the server besides inference: metrics, other models, log lines, whether it is still wanted."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from inference_runtime.backends.base import BackendServices
from inference_runtime.backends.python.side_channel import SideChannel
from inference_runtime.backends.python.wire.frames import Kind
from inference_runtime.errors import InvalidArgument, RuntimeFault
from inference_runtime.spec.backpressure import Backpressure
from inference_runtime.spec.messages import InferRequest

logger = logging.getLogger(__name__)

_LEVELS = {
    "VERBOSE": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}


class ModelRequests:
    """Those of one process. Event loop only. Malformed ones raise, which ends the process."""

    def __init__(
        self,
        services: BackendServices,
        channel: SideChannel,
        *,
        owner: Hashable,
        cancelled: Callable[[int], bool],
        request: Callable[[int], InferRequest | None],
        backpressure: Callable[[int], Backpressure | None],
    ) -> None:
        self._services = services
        self._channel = channel
        self._owner = owner  # of the metrics that it makes
        self._cancelled = cancelled
        self._request = request
        self._backpressure = backpressure
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: dict[str, Callable[[Any], None]] = {
            "log": log_line,
            "metric_change": self._metric_change,
            "metric_forget": self._metric_forget,
        }
        self._answered: dict[str, Callable[[Any], Any]] = {
            "cancelled": lambda text: self._cancelled(text["request"]),
            "trace_context": self._trace_context,
            "metric_family": self._metric_family,
            "metric": self._metric,
            "metric_value": self._metric_value,
        }
        self._awaited: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = {
            "load_model": self._load_model,
            "unload_model": self._unload_model,
            "model_ready": self._model_ready,
            "leave": self._leave,
        }

    def told(self, text: Any) -> None:
        self._told[text["what"]](text)

    def asked(self, text: Any) -> None:
        number: int = text["id"]
        awaited = self._awaited.get(text["what"])
        if awaited is not None:
            task = self._services.loop.create_task(self._reply_later(number, awaited(text)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        try:
            self._reply(number, value=self._answered[text["what"]](text))
        except RuntimeFault as fault:
            self._reply(number, error=fault.text)

    def close(self) -> None:
        self._services.metrics.drop(self._owner)

    async def _reply_later(self, number: int, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self._reply(number, value=await work)
        except RuntimeFault as fault:
            self._reply(number, error=fault.text)

    def _reply(self, number: int, **outcome: Any) -> None:
        self._channel.post(Kind.REPLY, {"id": number, **outcome})

    def _trace_context(self, text: Any) -> str | None:
        request = self._request(text["request"])
        return self._services.inference.trace_context(request) if request is not None else None

    def _metric_family(self, text: Any) -> int:
        return self._services.metrics.family(
            self._owner, text["name"], text["description"], text["kind"]
        )

    def _metric(self, text: Any) -> int:
        return self._services.metrics.metric(
            self._owner, text["family"], text["labels"], text["buckets"]
        )

    def _metric_value(self, text: Any) -> float:
        return self._services.metrics.value(self._owner, text["metric"])

    def _metric_change(self, text: Any) -> None:
        try:
            self._services.metrics.change(self._owner, text["metric"], text["by"], text["value"])
        except InvalidArgument as fault:
            logger.warning("a metric of a model can not be changed: %s", fault.text)

    def _metric_forget(self, text: Any) -> None:
        self._services.metrics.forget(self._owner, text["id"])

    async def _leave(self, text: Any) -> None:
        """To make more responses. As a task it comes after the responses before it, which the loop has in line."""
        backpressure = self._backpressure(text["request"])
        if backpressure is not None:
            await backpressure.wait()

    async def _load_model(self, text: Any) -> None:
        parameters: dict[str, Any] = {"config": text["config"]} if text["config"] else {}
        await self._services.models.load(text["model"], {**parameters, **text["files"]})

    async def _unload_model(self, text: Any) -> None:
        await self._services.models.unload(
            text["model"], unload_dependents=text["unload_dependents"]
        )

    async def _model_ready(self, text: Any) -> bool:
        return await self._services.models.ready(text["model"], text["version"])


def log_line(text: Any) -> None:
    """In the server's log, with the place in the model's file that wrote it."""
    level = _LEVELS.get(text["level"], logging.INFO)
    if logger.isEnabledFor(level):
        record = logger.makeRecord(
            logger.name, level, str(text["file"]), int(text["line"]), "%s", (text["message"],), None
        )
        logger.handle(record)
