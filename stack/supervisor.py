"""Starts the parts in order, waits until all are healthy, keeps them running, stops them in time."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from stack import parts
from stack.console import Console
from stack.process import ProcessSpec, SupervisedProcess
from stack.settings import ROOT, StackSettings, find_redis_server

_START_LIMIT_S = 120.0
_STARTS_BEFORE_GIVING_UP = 3
_STOP_LIMIT_S = 9.0


class CannotStart(Exception):
    """The stack cannot start. The message says what to change."""


@dataclass(frozen=True, slots=True)
class FirstAdmin:
    user: str
    password: str  # "" when the account existed already


class Supervisor:
    def __init__(self, settings: StackSettings, console: Console) -> None:
        self.settings = settings
        self.console = console
        self.processes: list[SupervisedProcess] = []
        self._lock: IO[str] | None = None

    async def run(self) -> None:
        """Start, wait for Ctrl-C or SIGTERM, stop. Raises CannotStart before anything is left over."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, stop.set)
        try:
            self._prepare()
            await self._serve_until(stop)
        finally:
            if self.processes:
                self.console.say("stopping …")
                await self._stop()
                self.console.say(f"stopped; your data stays in {self.settings.home}")
            if self._lock:
                self._lock.close()

    async def _serve_until(self, stop: asyncio.Event) -> None:
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                self._print_welcome(starting.result())
                await stopping
        finally:
            for task in (starting, stopping):
                task.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)

    # -- start ----------------------------------------------------------------------------

    def _prepare(self) -> None:
        home = self.settings.home
        for folder in ("run", "logs", "repository", "runtime", "uploads", "quarantine"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        self._take_lock()
        for variable, port in self.settings.ports.items():
            _refuse_taken_port(self.settings.host, port, variable)

    def _take_lock(self) -> None:
        self._lock = (self.settings.home / "run" / "stack.lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotStart(
                f"Switchyard already runs from {self.settings.home}. "
                "Stop it first, or set SWITCHYARD_HOME to another folder."
            ) from None

    async def _start(self) -> FirstAdmin:
        self.console.say("starting …")
        if not self.settings.redis_url:
            await self._start_redis()
        runtime = self._launch(parts.runtime_part(self.settings))
        await self._manage("migrate", "--no-input", "--verbosity", "0")
        admin = await self._first_admin()
        waiting = [runtime]
        waiting += [self._launch(spec) for spec in parts.control_plane_parts(self.settings)]
        await asyncio.gather(*(self._until_healthy(process) for process in waiting))
        return admin

    async def _start_redis(self) -> None:
        binary = find_redis_server()
        if binary is None:
            raise CannotStart(
                "No redis-server was found. Install one (for example the Debian package "
                "redis-server) or set REDIS_URL to a Redis that runs."
            )
        self.settings.redis_socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._until_healthy(self._launch(parts.redis_part(self.settings, binary)))

    def _launch(self, spec: ProcessSpec) -> SupervisedProcess:
        process = SupervisedProcess(
            spec,
            environment=self.settings.child_environment,
            cwd=ROOT,
            log_dir=self.settings.home / "logs",
            on_line=self.console.line,
        )
        self.processes.append(process)
        process.start()
        return process

    async def _until_healthy(self, process: SupervisedProcess) -> None:
        deadline = asyncio.get_running_loop().time() + _START_LIMIT_S
        while not await process.healthy():
            if process.restarts >= _STARTS_BEFORE_GIVING_UP:
                raise CannotStart(_with_last_lines(process, "ends right after it starts"))
            if asyncio.get_running_loop().time() > deadline:
                raise CannotStart(
                    _with_last_lines(process, f"is not healthy after {_START_LIMIT_S:.0f} s")
                )
            await asyncio.sleep(0.1)
        self.console.say(f"{process.spec.name} is up")

    async def _manage(self, *arguments: str) -> str:
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=self.settings.child_environment,
        )
        if done.returncode != 0:
            raise CannotStart(f"`manage.py {arguments[0]}` failed:\n{done.stderr.strip()[-3000:]}")
        return done.stdout

    async def _first_admin(self) -> FirstAdmin:
        answer = json.loads((await self._manage("bootstrap_admin", "--json")).splitlines()[-1])
        return FirstAdmin(user=answer["username"], password=answer.get("password") or "")

    def _print_welcome(self, admin: FirstAdmin) -> None:
        settings = self.settings
        rows = [
            ("Open", f"http://{settings.host}:{settings.web_port}"),
            ("User", admin.user),
            ("Password", admin.password or "the one you chose (shown on the first start only)"),
            ("Inference", f"HTTP {settings.host}:{settings.http_port}"
             f" · gRPC {settings.host}:{settings.grpc_port}"
             f" · metrics {settings.host}:{settings.metrics_port}"),
            ("Data", str(settings.home)),
            ("Try", "`make demo` in a second terminal"),
        ]  # fmt: skip
        self.console.block("Switchyard is up. Ctrl-C stops it.", rows)

    # -- stop -----------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Control plane first, then the runtime, Redis last. Never longer than ten seconds."""
        by_name = {process.spec.name: process for process in self.processes}
        last = [by_name.pop(name) for name in ("redis",) if name in by_name]
        runtime = [by_name.pop(name) for name in ("runtime",) if name in by_name]
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_LIMIT_S):
                await asyncio.gather(*(process.stop() for process in by_name.values()))
                await asyncio.gather(*(process.stop() for process in runtime))
                await asyncio.gather(*(process.stop() for process in last))
        for process in self.processes:
            if process.pid:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _refuse_taken_port(host: str, port: int, variable: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            raise CannotStart(
                f"Port {port} on {host} cannot be used ({problem.strerror}). "
                f"Set {variable} to a free port, for example: {variable}={port + 100} make run"
            ) from None


def _with_last_lines(process: SupervisedProcess, what: str) -> str:
    lines = "\n".join(f"    {line}" for line in list(process.recent)[-15:])
    return f"{process.spec.name} {what}. Its last lines:\n{lines}"
