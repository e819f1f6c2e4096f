"""Handlers of the trace and logging extensions over HTTP."""

from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http_routes import Handler, HttpCall
from inference_runtime.protocol import log_codec, trace_codec
from inference_runtime.telemetry.trace_settings import TraceValues


class SettingsHandlers:
    def __init__(self, core: CorePort) -> None:
        self._core = core

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        return [
            ("GET", "/v2/logging", self._log),
            ("POST", "/v2/logging", self._change_log),
            ("GET", "/v2/trace/setting", self._trace),
            ("POST", "/v2/trace/setting", self._change_trace),
            ("GET", "/v2/models/{m}/trace/setting", self._trace),
            ("POST", "/v2/models/{m}/trace/setting", self._change_trace),
        ]

    def _log(self, call: HttpCall) -> HttpReply:
        return HttpReply(log_codec.settings_json(self._core.log.settings))

    def _change_log(self, call: HttpCall) -> HttpReply:
        for field, value in log_codec.changes_of_json(call.body):
            self._core.log.change(**{field: value})
        return self._log(call)

    def _trace(self, call: HttpCall) -> HttpReply:
        return self._traced(self._core.trace_settings(call.arguments.get("m", "")))

    def _change_trace(self, call: HttpCall) -> HttpReply:
        model = call.arguments.get("m", "")
        self._core.trace_settings(
            model
        )  # that there is no such model goes before what was asked of it
        changes = trace_codec.changes_of_json(call.body)
        return self._traced(self._core.trace_change(model, changes))

    def _traced(self, values: TraceValues) -> HttpReply:
        return HttpReply(trace_codec.settings_json(values, self._core.trace_options))
