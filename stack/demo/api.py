"""The control plane's REST API as a script sees it: a token, JSON, and operations that take time."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import urllib3

_TERMINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}


class ApiProblem(Exception):
    """The API refused. The message is its own words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Api:
    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._last_etag = ""
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=5, read=60), retries=3)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self._send(
            method,
            path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        answer = self._pool.request(
            method, f"{self._url}/api/v1{path}", body=body, headers={**self._headers, **headers}
        )
        self._last_etag = answer.headers.get("ETag", "")
        parsed = json.loads(answer.data) if answer.data else None
        if answer.status >= 400:
            detail = parsed.get("detail") if isinstance(parsed, dict) else answer.data.decode()
            raise ApiProblem(answer.status, f"{method} {path}: {answer.status} {detail}")
        return parsed

    def change(self, path: str, changes: dict[str, Any]) -> Any:
        """Reads the settings there, changes some, writes them back; follows the operation."""
        current = self.call("GET", path)["settings"]
        etag = self._last_etag
        answer = self._send(
            "PUT",
            path,
            json.dumps({**current, **changes}).encode(),
            {"Content-Type": "application/json", "If-Match": etag},
        )
        return self.follow(answer, lambda _operation: None)

    def ensure_model(self, name: str, description: str) -> None:
        try:
            self.call("POST", "/models", {"name": name, "description": description})
        except ApiProblem as problem:
            if problem.status != 409:
                raise

    def version_with(self, name: str, digest: str) -> dict[str, Any] | None:
        """A READY version that holds the same file, so that a second demo uploads nothing."""
        for item in self.call("GET", f"/models/{name}/versions")["items"]:
            if item["state"] == "READY" and any(f["sha256"] == digest for f in item["files"]):
                found: dict[str, Any] = item
                return found
        return None

    def upload(self, name: str, file: Path, progress: Callable[[int], None]) -> dict[str, Any]:
        """Sends the file in parts; returns the operation that checks it."""
        content = file.read_bytes()
        upload = self.call(
            "POST",
            "/uploads",
            {
                "model": name,
                "filename": file.name,
                "size_bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "part_size": 4 * 1024 * 1024,
            },
        )
        for number, part in enumerate(_parts(content, upload["part_size"]), start=1):
            self._send(
                "PUT",
                f"/uploads/{upload['id']}/parts/{number}",
                part,
                {"Content-Type": "application/octet-stream"},
            )
            progress(len(part))
        operation: dict[str, Any] = self.call("POST", f"/uploads/{upload['id']}:complete", {})
        return operation

    def follow(
        self, operation: dict[str, Any], told: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        """Waits for the operation's end, telling each step. Raises ApiProblem if it fails."""
        while operation["state"] not in _TERMINAL:
            told(operation)
            operation = self.call("GET", f"/operations/{operation['id']}:wait?timeout=2")
        told(operation)
        if operation["state"] != "SUCCEEDED":
            error = operation.get("error") or {}
            raise ApiProblem(0, f"{operation['kind']}: {error.get('detail', operation['state'])}")
        return operation


def _parts(content: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, max(len(content), 1), size):
        yield content[start : start + size]
