"""Handlers of the v2 protocol's HTTP routes that are not inference."""

import orjson

from inference_runtime.errors import NotReady, RuntimeFault, Unsupported
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.http1_reply import HttpReply, error_reply
from inference_runtime.frontends.http_routes import Handler, HttpCall
from inference_runtime.protocol import admin_codec
from inference_runtime.spec.message_json import message_json


class AdminHandlers:
    def __init__(self, core: CorePort) -> None:
        self._core = core

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler). `/v2/models/stats` stands before the model that may bear its name."""
        rows: list[tuple[str, str, Handler]] = [
            ("GET", "/v2", self._server_metadata),
            ("GET", "/v2/health/live", self._live),
            ("GET", "/v2/health/ready", self._ready),
            ("GET", "/v2/models/stats", self._statistics),
            *_model("GET", "", self._model_metadata),
            *_model("GET", "/ready", self._model_ready),
            *_model("GET", "/config", self._model_config),
            *_model("GET", "/stats", self._statistics),
            ("POST", "/v2/repository/index", self._index),
            ("POST", "/v2/repository/{repository}/index", self._index),
        ]
        for prefix in ("/v2/repository", "/v2/repository/{repository}"):
            rows.append(("POST", prefix + "/models/{m}/load", self._load))
            rows.append(("POST", prefix + "/models/{m}/unload", self._unload))
        return rows

    def _live(self, call: HttpCall) -> HttpReply:
        return HttpReply(status=200 if self._core.live() else 400)

    async def _ready(self, call: HttpCall) -> HttpReply:
        if not self._core.ready():
            return HttpReply(status=400)
        try:
            await self._core.confirm_ready()
        except RuntimeFault:
            return HttpReply(status=400)
        return HttpReply()

    def _server_metadata(self, call: HttpCall) -> HttpReply:
        return HttpReply(orjson.dumps(self._core.server_metadata()))

    def _model_metadata(self, call: HttpCall) -> HttpReply:
        return HttpReply(message_json(self._core.model_metadata(*_target(call))))

    async def _model_ready(self, call: HttpCall) -> HttpReply:
        # Every reason for "no" is 400, an unknown model too: clients look at the status only.
        try:
            ready = self._core.model_ready(*_target(call))
        except RuntimeFault as fault:
            if fault.text.startswith("Server "):
                raise
            ready = False
        if not ready:
            return error_reply(400, "Model version not ready")
        try:
            await self._core.confirm_ready(*_target(call))
        except NotReady as fault:
            return error_reply(400, fault.text)
        return HttpReply()

    def _model_config(self, call: HttpCall) -> HttpReply:
        return HttpReply(message_json(self._core.model_config(*_target(call))))

    def _statistics(self, call: HttpCall) -> HttpReply:
        return HttpReply(message_json(self._core.model_statistics(*_target(call))))

    async def _index(self, call: HttpCall) -> HttpReply:
        ready_only = admin_codec.read_ready_only(call.body)
        return HttpReply(admin_codec.index_json(await self._core.repository_index(ready_only)))

    async def _load(self, call: HttpCall) -> HttpReply:
        _refuse_repository(call)
        parameters = admin_codec.read_load_parameters(call.body)
        await self._core.load(call.arguments["m"], parameters)
        return HttpReply()

    async def _unload(self, call: HttpCall) -> HttpReply:
        _refuse_repository(call)
        dependents = admin_codec.read_unload_dependents(call.body)
        await self._core.unload(call.arguments["m"], unload_dependents=dependents)
        return HttpReply()


def _target(call: HttpCall) -> tuple[str, str]:
    return call.arguments.get("m", ""), call.arguments.get("v", "")


def _model(method: str, end: str, handler: Handler) -> list[tuple[str, str, Handler]]:
    """A route of a model, and the same of one version."""
    return [
        (method, "/v2/models/{m}" + end, handler),
        (method, "/v2/models/{m}/versions/{v}" + end, handler),
    ]


def _refuse(text: str) -> Handler:
    def handler(call: HttpCall) -> HttpReply:
        raise Unsupported(text)

    return handler


def _refuse_repository(call: HttpCall) -> None:
    if call.arguments.get("repository"):
        raise Unsupported("'repository_name' specification is not supported")
