"""Handlers of the trace and logging extensions over gRPC."""

from typing import Any

from google.protobuf.message import Message

from inference_runtime import pb
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.grpc_unary import Handler
from inference_runtime.protocol import log_codec, trace_codec


class SettingsHandlers:
    def __init__(self, core: CorePort) -> None:
        self._core = core

    def table(self) -> dict[str, tuple[type[Message], Handler]]:
        return {
            "TraceSetting": (pb.TraceSettingRequest, self._trace),
            "LogSettings": (pb.LogSettingsRequest, self._log),
        }

    def _log(self, request: pb.LogSettingsRequest) -> Any:
        for field, value in log_codec.changes_of_message(request.settings):
            self._core.log.change(**{field: value})
        return log_codec.settings_message(self._core.log.settings)

    def _trace(self, request: pb.TraceSettingRequest) -> Any:
        core, model = self._core, request.model_name
        values = core.trace_settings(model)
        if request.settings:
            changes = trace_codec.changes_of_message(request.settings)
            values = core.trace_change(model, changes)
        return trace_codec.settings_message(values, core.trace_options)
