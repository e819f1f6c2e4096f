"""Infer requests by a plain HTTP client: whatever body and headers a test wants."""

import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any

from tests.conformance.runtime_process import WAIT_SECONDS, RuntimeProcess

JSON_SIZE = "Inference-Header-Content-Length"


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        """Of the whole body, or of the part in front of the tensors."""
        size = self.headers.get(JSON_SIZE)
        return json.loads(self.body[: int(size)] if size else self.body)

    @property
    def binary(self) -> bytes:
        size = self.headers.get(JSON_SIZE)
        return self.body[int(size) :] if size else b""

    @property
    def error(self) -> str:
        """The text of a fault that is the client's."""
        assert self.status == 400, self.body[:500]
        assert self.headers["Content-Type"] == "application/json"
        assert list(self.json) == ["error"]
        return self.json["error"]

    @property
    def outputs(self) -> dict[str, Any]:
        assert self.status == 200, self.body[:500]
        return {entry["name"]: entry for entry in self.json["outputs"]}


def post(
    server: RuntimeProcess, model: str, body: Any, headers: Mapping[str, str] | None = None
) -> RawAnswer:
    """`body`: an object as JSON, bytes as they are, an iterable of them in chunks."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    connection = http.client.HTTPConnection(server.http, timeout=WAIT_SECONDS)
    try:
        path = f"/v2/models/{model}/infer"
        connection.request("POST", path, data, dict(headers or {}))
        answer = connection.getresponse()
        return RawAnswer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


def entry(name: str, data: Any, datatype: str, shape: Iterable[int], **more: Any) -> dict[str, Any]:
    """An input with its data in the JSON."""
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": data, **more}
