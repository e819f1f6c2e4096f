"""How code inside the server loads and unloads models, and asks whether they are ready: models that manage others."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from inference_runtime.errors import Unavailable


class ModelControl(Protocol):
    """What the port is bound to. Raises RuntimeFault with the text for the model."""

    def load(self, name: str, parameters: Mapping[str, Any]) -> Awaitable[None]: ...
    def unload(self, name: str, *, unload_dependents: bool) -> Awaitable[None]: ...
    def ready(self, name: str, version: str) -> Awaitable[bool]: ...


class ModelControlPort:
    """Made before there is a core, bound when there is one. Event loop only."""

    __slots__ = ("_control",)

    def __init__(self) -> None:
        self._control: ModelControl | None = None

    def bind(self, control: ModelControl) -> None:
        self._control = control

    async def load(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Returns when the model serves."""
        await self._bound().load(name, parameters)

    async def unload(self, name: str, *, unload_dependents: bool) -> None:
        await self._bound().unload(name, unload_dependents=unload_dependents)

    async def ready(self, name: str, version: str) -> bool:
        return await self._bound().ready(name, version)

    def _bound(self) -> ModelControl:
        if self._control is None:
            raise Unavailable("the server can not load or unload models now")
        return self._control
