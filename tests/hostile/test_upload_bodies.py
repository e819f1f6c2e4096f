"""Bodies over HTTP as a real server sees them: too long, endless, large; memory stays flat."""

import hashlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.publishing import Publishing

MIB = 1024 * 1024
_SERVER = """
import sys
from pathlib import Path
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from tests.publishing import point_settings_at
point_settings_at(settings, Path(sys.argv[2]))
import uvicorn
uvicorn.run("webapp.asgi:application", port=int(sys.argv[3]), log_level="warning", lifespan="off")
"""


@dataclass
class Server:
    port: int
    pid: int
    token: str

    def memory(self) -> int:
        """Resident bytes now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            link.request(method, path, body, {"Authorization": f"Bearer {self.token}", **headers})
            answer = link.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            link.close()

    def start(self, size: int, part_size: int) -> dict[str, Any]:
        body = {"model": "m", "filename": "m.onnx", "size_bytes": size, "part_size": part_size}
        status, upload = self.ask(
            "POST", "/api/v1/uploads", json.dumps(body), **{"Content-Type": "application/json"}
        )
        assert status == 201, upload
        return upload


@pytest.fixture
def server(publishing: Publishing) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with _running(publishing, port) as process:
        server = Server(port, process.pid, publishing.world.token("operator"))
        deadline = time.monotonic() + 30
        while True:
            try:
                assert server.ask("GET", "/api/v1/uploads")[0] == 200
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield server


@contextmanager
def _running(publishing: Publishing, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    database = str(connection.settings_dict["NAME"])
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, database, str(publishing.home), str(port)],
        cwd=Path(__file__).parent.parent.parent,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "TMPDIR": str(publishing.home / "incoming"),
        },
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)


@pytest.mark.slow
def test_large_parts_go_to_disk_and_not_to_memory(server: Server, publishing: Publishing) -> None:
    block = hashlib.sha256(b"x").digest() * (2 * MIB)
    upload = server.start(len(block) * 6, len(block))
    assert server.ask("PUT", f"/api/v1/uploads/{upload['id']}/parts/1", block)[0] == 200
    before = server.memory()
    for number in range(2, 7):
        status, part = server.ask("PUT", f"/api/v1/uploads/{upload['id']}/parts/{number}", block)
        assert status == 200
        assert part["sha256"] == hashlib.sha256(block).hexdigest()
    grown = server.memory() - before

    assert grown < 24 * MIB, f"{grown / MIB:.0f} MiB more for 320 MiB uploaded"
    assert server.ask("DELETE", f"/api/v1/uploads/{upload['id']}")[0] == 204
    assert publishing.bytes_kept() == 0


def test_a_body_that_announces_too_much_is_refused_at_once(server: Server) -> None:
    upload = server.start(MIB, 256 * 1024)
    path = f"/api/v1/uploads/{upload['id']}/parts/1"
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Length: {20 * 10**9}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
        link.sendall(head.encode() + bytes(1000))
        answer = _read_all(link)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"BODY_TOO_LARGE" in answer


def test_a_one_shot_upload_of_20_gb_is_refused_at_once(server: Server) -> None:
    head = (
        "POST /api/v1/models/m/versions HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Length: {20 * 10**9}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
        link.sendall(head.encode())
        answer = _read_all(link)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"SWITCHYARD_MAX_UPLOAD_BYTES" in answer


def test_an_endless_body_is_cut_off(server: Server, publishing: Publishing) -> None:
    """Chunked, so nothing is announced; it must not fill the disk before it is noticed."""
    upload = server.start(MIB, 256 * 1024)
    path = f"/api/v1/uploads/{upload['id']}/parts/1"
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"100000\r\n" + bytes(MIB) + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
        link.sendall(head.encode())
        try:
            while sent < 200:
                link.sendall(chunk)
                sent += 1
        except OSError:
            pass  # it hung up on us, as it should
        answer = _read_all(link)
    assert sent < 200 or b" 413 " in answer
    assert b" 413 " in answer or not answer
    status, seen = server.ask("GET", f"/api/v1/uploads/{upload['id']}")
    assert (status, seen["missing_parts"]) == (200, [1, 2, 3, 4])


def _read_all(link: socket.socket) -> bytes:
    found = b""
    try:
        while block := link.recv(65536):
            found += block
    except OSError:
        pass
    return found
