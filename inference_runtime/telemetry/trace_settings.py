"""Trace settings: the server's and per model, each field set or inherited, and what they say of a request.

Whoever owns a count (the server, or a model that set one) owns what is left of it.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from inference_runtime.errors import InvalidArgument

TIMESTAMPS: Final = "TIMESTAMPS"
TENSORS: Final = "TENSORS"
LEVELS: Final = (TIMESTAMPS, TENSORS)
FIELDS: Final = ("levels", "rate", "count", "log_frequency")
UNLIMITED: Final = -1
_SERVER: Final = ""  # the name of the server's own settings


class TraceMode(enum.Enum):
    TRITON = "triton"
    OPENTELEMETRY = "opentelemetry"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Where spans go in mode opentelemetry, and in which portions."""

    url: str = "localhost:4318/v1/traces"
    resource: Mapping[str, str] = field(default_factory=dict)
    max_queue_size: int = 2048
    schedule_delay_ms: int = 5000
    max_export_batch_size: int = 512


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What the command line says. No level is OFF."""

    levels: tuple[str, ...] = ()
    rate: int = 1000
    count: int = UNLIMITED
    log_frequency: int = 0
    file: str = ""
    mode: TraceMode = TraceMode.TRITON
    export: ExportOptions = field(default_factory=ExportOptions)


@dataclass(frozen=True, slots=True)
class TraceValues:
    """The settings in force for one model; `count` is what is left."""

    levels: tuple[str, ...]
    rate: int
    count: int
    log_frequency: int


class _Settings:
    """`own`: the fields that were set here."""

    __slots__ = ("left", "own", "seen")

    def __init__(self) -> None:
        self.own: dict[str, Any] = {}
        self.left = UNLIMITED  # means something to the owner of a count only
        self.seen = 0  # requests since the settings were last changed


class TraceSettings:
    def __init__(self, options: TraceOptions) -> None:
        self.options = options
        self._server = _Settings()
        self._server.left = options.count
        self._models: dict[str, _Settings] = {}

    def effective(self, model: str = _SERVER) -> TraceValues:
        settings = self._models.get(model, self._server)
        return TraceValues(
            levels=self._value(settings, "levels"),
            rate=self._value(settings, "rate"),
            count=self._owner(settings).left,
            log_frequency=self._value(settings, "log_frequency"),
        )

    def owner(self, model: str) -> str:
        """Whose settings are in force for the model: its own name, or the server's."""
        return model if model in self._models else _SERVER

    def change(self, model: str, changes: Mapping[str, Any]) -> None:
        """By field; None takes back what was set. Changes nothing when it raises InvalidArgument."""
        known = self._server if model == _SERVER else self._models.get(model)
        own = {**known.own, **changes} if known is not None else dict(changes)
        own = {name: value for name, value in own.items() if value is not None}
        self._check(own, model)
        settings = known or _Settings()
        settings.own = own
        settings.seen = 0
        if "count" in changes:
            settings.left = own.get("count", self.options.count)
        if model == _SERVER:
            return
        if own:
            self._models[model] = settings
        else:
            self._models.pop(model, None)

    @property
    def active(self) -> bool:
        """Whether any request may be traced."""
        return any(self._may_trace(settings) for settings in (self._server, *self._models.values()))

    def sample(self, model: str, *, propagated: bool = False) -> TraceValues | None:
        """Counts a request; what to record of it if it is one to be traced.

        A request that is part of a trace already (`propagated`) is one whatever the rate.
        """
        settings = self._models.get(model, self._server)
        if not self._may_trace(settings):
            return None
        rate = self._value(settings, "rate")
        settings.seen += 1
        if not propagated and (rate == 0 or settings.seen % rate):
            return None
        owner = self._owner(settings)
        if owner.left > 0:
            owner.left -= 1
        return self.effective(model)

    def _may_trace(self, settings: _Settings) -> bool:
        return bool(self._value(settings, "levels")) and self._owner(settings).left != 0

    def _owner(self, settings: _Settings) -> _Settings:
        return settings if "count" in settings.own else self._server

    def _value(self, settings: _Settings, name: str) -> Any:
        for own in (settings.own, self._server.own):
            if name in own:
                return own[name]
        return getattr(self.options, name)

    def _check(self, own: Mapping[str, Any], model: str) -> None:
        """Refuses what could never trace although a level is set."""
        inherited = self._server.own if model != _SERVER else {}
        levels, rate = (
            own.get(name, inherited.get(name, getattr(self.options, name)))
            for name in ("levels", "rate")
        )
        if not levels or self.options.mode is not TraceMode.TRITON:
            return
        reason = ""
        if rate == 0:
            reason = "sample rate must be non-zero"
        elif not self.options.file:
            reason = "trace file name is not given"
        if reason:
            raise InvalidArgument(f"Attempting to set invalid trace setting :{reason}")
