"""Refuses request bodies by size before anything of them is kept. Wraps the ASGI application.

Django spools a whole body to a temporary file before a view can object; so the limit of each
route is enforced here, by Content-Length at once and by counting where there is none.
"""

import json
import re
from typing import Any

from django.conf import settings

from webapp.core.problems import CONTENT_TYPE, Problem
from webapp.uploads.limits import MOST_PART_BYTES
from webapp.uploads.services import MAX_SAMPLES_BYTES

_USUAL_BYTES = 32 * 1024 * 1024
_FORM_EXTRA_BYTES = 4 * 1024 * 1024  # boundaries, fields and a config beside the files
_PART = re.compile(r"^/api/v1/uploads/[^/]+/parts/\d+$")
_SAMPLES = re.compile(r"^/api/v1/uploads/[^/]+/samples$")
_WHOLE_FILE = re.compile(r"^(/api/v1/models/[^/]+/versions|/upload/)$")


def body_limit(path: str) -> int:
    if _PART.match(path):
        return MOST_PART_BYTES
    if _SAMPLES.match(path):
        return MAX_SAMPLES_BYTES
    if _WHOLE_FILE.match(path):
        return int(settings.MAX_UPLOAD_BYTES) + MAX_SAMPLES_BYTES + _FORM_EXTRA_BYTES
    return _USUAL_BYTES


class BodyLimit:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        limit = body_limit(scope["path"])
        if _announced(scope) > limit:
            await _refuse(send, limit)
            return
        counted = _Counted(receive, send, limit)
        await self._inner(scope, counted.receive, counted.send)
        if counted.exceeded and not counted.answered:
            await _refuse(send, limit)


class _Counted:
    """The body as it comes, ended as a disconnect when it grows over the limit."""

    def __init__(self, receive: Any, send: Any, limit: int) -> None:
        self.exceeded = False
        self.answered = False
        self._receive = receive
        self._send = send
        self._left = limit

    async def receive(self) -> Any:
        if self.exceeded:
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                self.exceeded = True
                return {"type": "http.disconnect"}
        return message

    async def send(self, message: Any) -> None:
        self.answered = True
        await self._send(message)


def _announced(scope: Any) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


async def _refuse(send: Any, limit: int) -> None:
    problem = Problem(
        status=413,
        title="Too large",
        detail=f"The body is larger than the {limit:,} bytes this address takes; "
        "nothing of it was kept.",
        reason="BODY_TOO_LARGE",
        help_text="Upload large models in parts: POST /api/v1/uploads. The limit for one model is "
        "SWITCHYARD_MAX_UPLOAD_BYTES.",
    )
    content = json.dumps(problem.body()).encode()
    await send(
        {
            "type": "http.response.start",
            "status": 413,
            "headers": [
                (b"content-type", CONTENT_TYPE.encode()),
                (b"content-length", str(len(content)).encode()),
                (b"connection", b"close"),
            ],
        }
    )
    await send({"type": "http.response.body", "body": content})
