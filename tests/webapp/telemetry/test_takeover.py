"""Two sampler processes, one killed without a word: the other reads on within five seconds."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fakes.counting_runtime import CountingRuntime

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow


def eventually(question: Callable[[], bool], *, within: float, what: str) -> None:
    deadline = time.monotonic() + within
    while not question():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def statistics_port() -> Iterator[int]:
    """A runtime's HTTP port that answers with growing counters."""
    runtime = CountingRuntime()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            runtime.serve("resnet50", 1, requests=5)
            body = json.dumps(runtime.body()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


class Samplers:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.database = home / "takeover.sqlite3"
        self.environment = os.environ | {
            "SWITCHYARD_HOME": str(home),
            "DJANGO_SETTINGS_MODULE": "tests.webapp.telemetry.process_settings",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def manage(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=self.environment, check=True, capture_output=True,
        )  # fmt: skip

    def load(self, model: str, **fields: object) -> None:
        fixture = self.home / "row.json"
        fixture.write_text(json.dumps([{"model": model, "fields": fields}]))
        self.manage("loaddata", str(fixture))

    def start(self) -> subprocess.Popen[bytes]:
        """Returns when the process has begun to ask for the lead."""
        log = self.home / f"sampler-{len(self.processes)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "sampler"],
                cwd=ROOT, env=self.environment, stderr=file,
            )  # fmt: skip
        self.processes.append(process)
        eventually(lambda: "started" in log.read_text(), within=30, what="a sampler starts")
        return process

    def ask(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.database, timeout=20)
        try:
            with connection:
                return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def leader(self) -> int | None:
        rows = self.ask("SELECT holder FROM telemetry_samplerlease WHERE until > ?", now_text())
        return int(str(rows[0][0]).split(":")[-2]) if rows else None

    def samples(self) -> int:
        return len(self.ask("SELECT id FROM telemetry_runtimesample WHERE seconds = 1"))


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


@pytest.fixture(scope="module")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    Samplers(home).manage("migrate", "--run-syncdb")
    return home


@pytest.fixture
def samplers(tmp_path: Path, empty_home: Path, statistics_port: int) -> Iterator[Samplers]:
    shutil.copytree(empty_home, tmp_path, dirs_exist_ok=True)
    pair = Samplers(tmp_path)
    pair.load(
        "serving.runtime",
        name="edge-1",
        http_address=f"127.0.0.1:{statistics_port}",
        grpc_address="127.0.0.1:1",
        created_at=now_text(),
        updated_at=now_text(),
    )
    yield pair
    for process in pair.processes:
        process.kill()
        process.wait()


def test_the_other_sampler_takes_over_from_one_that_was_killed(samplers: Samplers) -> None:
    first = samplers.start()
    eventually(lambda: samplers.leader() == first.pid, within=10, what="the first leads")
    second = samplers.start()
    eventually(lambda: samplers.samples() >= 2, within=10, what="the first samples")

    first.send_signal(signal.SIGKILL)
    first.wait()
    before = samplers.samples()
    eventually(lambda: samplers.samples() > before, within=5, what="the second samples")
    assert samplers.leader() == second.pid

    moments = samplers.ask("SELECT at FROM telemetry_runtimesample WHERE seconds = 1 ORDER BY at")
    assert len(moments) == len(set(moments)), "no second was sampled twice"
    counts = samplers.ask("SELECT requests FROM telemetry_servingsample WHERE seconds = 1")
    assert {count for (count,) in counts} == {5}, "no sample spans the change of leader"


def test_told_to_stop_it_hands_over_at_once(samplers: Samplers) -> None:
    first = samplers.start()
    eventually(lambda: samplers.leader() == first.pid, within=20, what="the first leads")
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=10) == 0
    assert samplers.leader() is None
