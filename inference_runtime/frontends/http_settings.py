"""Handlers of the logging extension over HTTP."""

from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.http1_reply import HttpReply
from inference_runtime.frontends.http_routes import Handler, HttpCall
from inference_runtime.protocol import log_codec


class SettingsHandlers:
    def __init__(self, core: CorePort) -> None:
        self._core = core

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        return [
            ("GET", "/v2/logging", self._log),
            ("POST", "/v2/logging", self._change_log),
        ]

    def _log(self, call: HttpCall) -> HttpReply:
        return HttpReply(log_codec.settings_json(self._core.log.settings))

    def _change_log(self, call: HttpCall) -> HttpReply:
        for field, value in log_codec.changes_of_json(call.body):
            self._core.log.change(**{field: value})
        return self._log(call)
