"""The parts of a stack on one machine and how each is started, asked and stopped."""

import sys

from stack.health import answers_http, answers_ping, touched
from stack.process import ProcessSpec
from stack.settings import ROOT, StackSettings

_PYTHON = sys.executable


def redis_part(settings: StackSettings, binary: str) -> ProcessSpec:
    socket = settings.redis_socket
    return ProcessSpec(
        name="redis",
        # Nothing to save: jobs are rows in the database, messages only wake-ups.
        command=(
            binary, "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
            "--save", "", "--appendonly", "no", "--dir", str(settings.home), "--daemonize", "no",
            "--maxmemory", "256mb", "--maxmemory-policy", "noeviction", "--loglevel", "warning",
        ),
        health=answers_ping(f"unix://{socket}"),
        colour=31,
    )  # fmt: skip


def runtime_part(settings: StackSettings) -> ProcessSpec:
    return ProcessSpec(
        name="runtime",
        command=(
            _PYTHON, "-m", "inference_runtime",
            f"--model-repository={settings.home / 'repository'}",
            "--model-control-mode=explicit",
            f"--http-address={settings.host}", f"--grpc-address={settings.host}",
            f"--metrics-address={settings.host}",
            f"--http-port={settings.http_port}", f"--grpc-port={settings.grpc_port}",
            f"--metrics-port={settings.metrics_port}",
            f"--switchyard-state-dir={settings.home / 'runtime'}",
            "--exit-timeout-secs=4",
        ),
        health=answers_http(settings.host, settings.http_port, "/v2/health/live"),
        colour=32,
        stop_grace_s=5.0,
    )  # fmt: skip


def web_part(settings: StackSettings) -> ProcessSpec:
    return ProcessSpec(
        name="web",
        command=(
            _PYTHON, "-m", "uvicorn", "webapp.asgi:application", "--host", settings.host,
            "--port", str(settings.web_port), "--log-level", "warning", "--no-access-log",
            "--timeout-graceful-shutdown", "2", "--ws-max-size", "65536", "--lifespan", "off",
        ),
        health=answers_http(settings.host, settings.web_port, "/healthz"),
        # Bodies are spooled beside the uploads: /tmp may be small, or memory.
        environment={"TMPDIR": str(settings.home / "incoming")},
        colour=34,
        stop_grace_s=3.0,
    )  # fmt: skip


def worker_part(settings: StackSettings, *, name: str, queue: str, concurrency: int) -> ProcessSpec:
    command = (
        _PYTHON, "-m", "celery", "-A", "workers.celery_app", "worker", "--queues", queue,
        "--concurrency", str(concurrency), "--hostname", f"{name}@%h", "--loglevel", "INFO",
        "--without-gossip", "--without-mingle",
    )  # fmt: skip
    # A job in hand keeps its row; its lease runs out and the next start takes it up.
    return _writes_when_ready(settings, name, command, colour=35)


def beat_part(settings: StackSettings) -> ProcessSpec:
    command = (
        _PYTHON, "-m", "celery", "-A", "workers.celery_app", "beat", "--loglevel", "WARNING",
        "--schedule", str(settings.home / "run" / "beat-schedule"), "--pidfile=",
    )  # fmt: skip
    return _writes_when_ready(settings, "beat", command, colour=33)


def sampler_part(settings: StackSettings) -> ProcessSpec:
    command = (_PYTHON, str(ROOT / "manage.py"), "sampler")
    return _writes_when_ready(settings, "sampler", command, colour=36)


def control_plane_parts(settings: StackSettings) -> list[ProcessSpec]:
    """In the order of their start."""
    return [
        web_part(settings),
        # Shares and rollouts have a worker of their own: no long job may delay them.
        worker_part(settings, name="control-worker", queue="control", concurrency=1),
        worker_part(settings, name="worker", queue="default", concurrency=settings.workers),
        # Benchmarks run for minutes; in their own process they never delay a rollout's next step.
        worker_part(settings, name="bench-worker", queue="benchmarks", concurrency=1),
        beat_part(settings),
        sampler_part(settings),
    ]


def _writes_when_ready(
    settings: StackSettings, name: str, command: tuple[str, ...], *, colour: int
) -> ProcessSpec:
    """A part without a port: it writes a file once it works."""
    ready = settings.home / "run" / f"{name}.ready"
    return ProcessSpec(
        name=name,
        command=command,
        health=touched(ready),
        colour=colour,
        stop_grace_s=2.0,
        ready_file=ready,
        environment={"SWITCHYARD_READY_FILE": str(ready)},
    )
