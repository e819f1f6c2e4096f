"""Handlers of the logging extension over gRPC."""

from typing import Any

from google.protobuf.message import Message

from inference_runtime import pb
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.grpc_unary import Handler
from inference_runtime.protocol import log_codec


class SettingsHandlers:
    def __init__(self, core: CorePort) -> None:
        self._core = core

    def table(self) -> dict[str, tuple[type[Message], Handler]]:
        return {"LogSettings": (pb.LogSettingsRequest, self._log)}

    def _log(self, request: pb.LogSettingsRequest) -> Any:
        for field, value in log_codec.changes_of_message(request.settings):
            self._core.log.change(**{field: value})
        return log_codec.settings_message(self._core.log.settings)
