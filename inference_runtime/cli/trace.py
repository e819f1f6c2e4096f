"""`--trace-config`, and the deprecated options it replaces."""

from dataclasses import replace

from inference_runtime.cli.arguments import Arguments, UsageError
from inference_runtime.telemetry.trace_settings import (
    LEVELS,
    TIMESTAMPS,
    ExportOptions,
    TraceMode,
    TraceOptions,
)

# Deprecated option → what to say in --trace-config.
_DEPRECATED = {
    "trace-file": "triton,file",
    "trace-level": "level",
    "trace-rate": "rate",
    "trace-count": "count",
    "trace-log-frequency": "triton,log-frequency",
}
_LEVEL_NAMES = {"MIN": TIMESTAMPS, "MAX": TIMESTAMPS, "TRUE": TIMESTAMPS} | {
    level: level for level in LEVELS
}


def trace_options(
    given: Arguments, warnings: list[str], export_defaults: ExportOptions
) -> TraceOptions:
    """`export_defaults` are the environment's."""
    reader = _Reader(TraceOptions(export=export_defaults))
    for option, setting in _DEPRECATED.items():
        for value in given.many(option):
            warnings.append(
                f"Warning: '--{option}' has been deprecated! Please use '--trace-config={setting}=' instead."
            )
            reader.take(setting, value)
    for entry in given.many("trace-config"):
        setting, equals, value = entry.partition("=")
        if not equals:
            raise _bad(entry)
        reader.take(setting, value)
    return reader.checked()


class _Reader:
    def __init__(self, options: TraceOptions) -> None:
        self._options = options
        self._resource: dict[str, str] = {}

    def take(self, setting: str, value: str) -> None:
        where, comma, name = setting.partition(",")
        if not comma:
            self._take_general(setting, value)
        elif where == TraceMode.TRITON.value:
            self._take_triton(name, value)
        elif where == TraceMode.OPENTELEMETRY.value:
            self._take_export(name, value)
        else:
            raise _bad(f"{setting}={value}")

    def checked(self) -> TraceOptions:
        options = self._options
        if self._resource:
            options = replace(options, export=replace(options.export, resource=self._resource))
        if options.levels and options.mode is TraceMode.TRITON:
            if not options.file:
                raise UsageError("--trace-config: a level wants a file: triton,file=<path>")
            if options.rate == 0:
                raise UsageError("--trace-config: the rate must be non-zero")
        return options

    def _take_general(self, name: str, value: str) -> None:
        if name == "level":
            self._take_level(value)
        elif name == "mode":
            try:
                self._options = replace(self._options, mode=TraceMode(value.lower()))
            except ValueError:
                raise _bad(f"mode={value}") from None
        elif name == "rate":
            self._options = replace(self._options, rate=_number(name, value, 0))
        elif name == "count":
            self._options = replace(self._options, count=_number(name, value, -1))
        else:
            raise _bad(f"{name}={value}")

    def _take_level(self, value: str) -> None:
        level = value.upper()
        if level in ("OFF", "FALSE"):
            return
        if level not in _LEVEL_NAMES:
            raise _bad(f"level={value}")
        levels = {*self._options.levels, _LEVEL_NAMES[level]}
        self._options = replace(
            self._options, levels=tuple(name for name in LEVELS if name in levels)
        )

    def _take_triton(self, name: str, value: str) -> None:
        if name == "file":
            self._options = replace(self._options, file=value)
        elif name == "log-frequency":
            self._options = replace(self._options, log_frequency=_number(name, value, 0))
        else:
            raise _bad(f"triton,{name}={value}")

    def _take_export(self, name: str, value: str) -> None:
        export = self._options.export
        if name == "url":
            export = replace(export, url=value)
        elif name == "resource":
            key, equals, text = value.partition("=")
            if not equals or not key:
                raise _bad(f"opentelemetry,{name}={value}")
            self._resource[key] = text
        elif name == "bsp_max_queue_size":
            export = replace(export, max_queue_size=_number(name, value, 1))
        elif name == "bsp_schedule_delay":
            export = replace(export, schedule_delay_ms=_number(name, value, 1))
        elif name == "bsp_max_export_batch_size":
            export = replace(export, max_export_batch_size=_number(name, value, 1))
        else:
            raise _bad(f"opentelemetry,{name}={value}")
        self._options = replace(self._options, export=export)


def _number(name: str, text: str, least: int) -> int:
    if not text.removeprefix("-").isdecimal() or not least <= int(text[:32]) < 2**32:
        raise _bad(f"{name}={text}")
    return int(text)


def _bad(entry: str) -> UsageError:
    return UsageError(
        'Bad option: "--trace-config". Use level=, rate=, count=, mode=, triton,file=, '
        "triton,log-frequency=, opentelemetry,url=, opentelemetry,resource=<key>=<value> or "
        f'opentelemetry,bsp_…=, not "{entry}".'
    )
