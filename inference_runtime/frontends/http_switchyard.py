"""Handlers of our own extension, `/v2/switchyard/…`: traffic tables, slots and arm statistics."""

from typing import Any
from urllib.parse import parse_qs

import orjson

from inference_runtime.errors import Conflict, InvalidArgument
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.http1_reply import HttpReply, error_reply
from inference_runtime.frontends.http_routes import Handler, HttpCall
from inference_runtime.protocol import json_reader

_CONFLICT = 409


class SwitchyardHandlers:
    def __init__(self, core: CorePort) -> None:
        self._core = core

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        return [
            ("GET", "/v2/switchyard/traffic", self._tables),
            ("GET", "/v2/switchyard/traffic/{m}", self._get),
            ("PUT", "/v2/switchyard/traffic/{m}", self._put),
            ("DELETE", "/v2/switchyard/traffic/{m}", self._delete),
            ("GET", "/v2/switchyard/slots", self._slots),
            ("PUT", "/v2/switchyard/slots", self._put_slots),
            ("GET", "/v2/switchyard/statistics", self._statistics),
        ]

    def _tables(self, call: HttpCall) -> HttpReply:
        return _json({"tables": self._core.traffic_tables()})

    def _get(self, call: HttpCall) -> HttpReply:
        return _json(self._core.traffic_table(call.arguments["m"]))

    async def _put(self, call: HttpCall) -> HttpReply:
        table = json_reader.parse_object(call.body)
        try:
            return _json(await self._core.traffic_put(call.arguments["m"], table))
        except Conflict as fault:  # a newer generation is in force
            return error_reply(_CONFLICT, fault.text)

    async def _delete(self, call: HttpCall) -> HttpReply:
        generation = _generation(call.head.query)
        try:
            await self._core.traffic_delete(call.arguments["m"], generation)
        except Conflict as fault:
            return error_reply(_CONFLICT, fault.text)
        return _json({})

    def _slots(self, call: HttpCall) -> HttpReply:
        return _json(self._core.slots())

    def _put_slots(self, call: HttpCall) -> HttpReply:
        return _json(self._core.slots_put(json_reader.parse_object(call.body)))

    def _statistics(self, call: HttpCall) -> HttpReply:
        return _json(self._core.switchyard_statistics())


def _json(value: Any) -> HttpReply:
    return HttpReply(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))


def _generation(query: str) -> int | None:
    values = parse_qs(query).get("generation")
    if values is None:
        return None
    if len(values) > 1 or not (values[0].isascii() and values[0].isdigit()):
        raise InvalidArgument("generation must be a whole number")
    return int(values[0][:32])
