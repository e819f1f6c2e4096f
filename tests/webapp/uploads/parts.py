"""A script that uploads in parts."""

import hashlib
from typing import Any

from rest_framework.test import APIClient

PART = 256 * 1024


def start(api: APIClient, content: bytes, model: str = "m", **more: Any) -> dict[str, Any]:
    body = {
        "model": model,
        "filename": "model.onnx",
        "size_bytes": len(content),
        "part_size": PART,
        **more,
    }
    response = api.post("/api/v1/uploads", body)
    assert response.status_code == 201, response.content
    return response.json()


def part_of(content: bytes, number: int) -> bytes:
    return content[(number - 1) * PART : number * PART]


def send(api: APIClient, upload: dict[str, Any], number: int, body: bytes, **headers: str) -> Any:
    return api.put(
        f"/api/v1/uploads/{upload['id']}/parts/{number}",
        body,
        content_type="application/octet-stream",
        headers=headers,
    )


def send_all(api: APIClient, upload: dict[str, Any], content: bytes) -> None:
    for number in range(1, upload["part_count"] + 1):
        body = part_of(content, number)
        digest = hashlib.sha256(body).hexdigest()
        response = send(api, upload, number, body, **{"X-Part-SHA256": digest})
        assert response.status_code == 200, response.content
