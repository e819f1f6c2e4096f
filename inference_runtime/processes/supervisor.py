"""The front-end processes of a server: as many as asked for, each replaced when it dies.

They end with the executor whatever happens to it, because they see the end of the socket between them.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from inference_runtime.errors import Unavailable
from inference_runtime.frontends.core_port import CorePort
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.frontends.http_server import HttpOptions
from inference_runtime.processes.calls import Handlers
from inference_runtime.processes.catalogue import CHANGES, Answers
from inference_runtime.processes.intake import HeadMemory, Intake
from inference_runtime.processes.link import Link, LinkFds
from inference_runtime.processes.options_text import options_value
from inference_runtime.processes.ports import HeldPort, hold_port
from inference_runtime.telemetry.logs import LogSettings

logger = logging.getLogger(__name__)

_ROOT: Final = str(Path(__file__).resolve().parents[2])
_MODULE: Final = "inference_runtime.processes"
_START_S: Final = 60.0  # from its start until it listens, on a machine that is very busy
_QUICK_S: Final = 5.0  # who dies sooner than this again and again is not replaced at once
_MAX_PAUSE_S: Final = 5.0
_SPARE_S: Final = 1.0  # between two looks whether there is a spare
_CLOSING_S: Final = 2.0  # beyond the time that connections are given


class NotServed(Unavailable):
    """A listener that could not be opened, "" for all of a process."""

    def __init__(self, text: str, listener: str = "") -> None:
        super().__init__(text)
        self.listener = listener


@dataclass(frozen=True, slots=True)
class FrontEndPlan:
    """What every front-end process is to be. `malloc`: glibc's variables that the operator has set."""

    count: int
    http_options: HttpOptions
    grpc_options: GrpcOptions
    environment: Mapping[str, str]
    malloc: Collection[str] = ()
    propagates: bool = False  # clients' traces go on here


class SharedListener:
    """One port of all front-end processes, as the server sees its own."""

    def __init__(
        self, processes: "FrontEndProcesses", name: str, host: str, held: HeldPort
    ) -> None:
        self._processes = processes
        self._name = name
        self.host = host
        self.held = held
        self.port = held.port

    def stop_accepting(self) -> None:
        self._processes.tell({"do": "stop", "listener": self._name})

    async def close(self, grace_s: float) -> None:
        told = {"do": "close", "listener": self._name, "grace": grace_s}
        await self._processes.closed(told, grace_s + _CLOSING_S)


class FrontEndProcesses:
    def __init__(
        self, core: CorePort, plan: FrontEndPlan, unit_headers: Callable[[], dict[str, str]]
    ) -> None:
        self._core = core
        self._plan = plan
        self._unit_headers = unit_headers
        self._heads = HeadMemory()
        self._handlers = Handlers(core)
        self._listeners: dict[str, SharedListener] = {}
        self._processes: dict[int, FrontEndProcess] = {}
        self._spare: FrontEndProcess | None = None  # started and not told what it is to be
        self._spare_taken = asyncio.Event()
        self._keepers: list[asyncio.Task[None]] = []
        self._changes = 0
        self._leaving = False

    def listener(self, name: str, host: str, port: int) -> SharedListener:
        """HTTP or GRPC, before the start. Raises Unavailable when the port can not be had."""
        shared = self._options(name).reuse_port
        listener = SharedListener(self, name, host, hold_port(host, port, shared=shared))
        self._listeners[name] = listener
        return listener

    async def start(self) -> None:
        """Returns when all listen. Raises NotServed."""
        numbers = range(self._plan.count)
        for number, process in enumerate([await self._new() for _ in numbers]):
            self._take(number, process)
        for process in self._processes.values():
            await process.listening()
        self._keepers = [asyncio.create_task(self._keep(number)) for number in numbers]
        self._keepers.append(asyncio.create_task(self._keep_spare()))
        self._core.log.listen(self._log_changed)

    def changed(self) -> None:
        """What serves, or who gets the traffic, is another: what front ends remember holds no more."""
        self._changes += 1
        for process in self._processes.values():
            process.count_changes(self._changes)

    def tell(self, value: Mapping[str, Any]) -> None:
        """From the first word on nobody is replaced: the server leaves."""
        self._leaving = True
        for process in self._processes.values():
            process.tell(value)

    async def closed(self, value: Mapping[str, Any], limit_s: float) -> None:
        self.tell(value)
        waits = [process.closed(value["listener"]) for process in self._processes.values()]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waits), limit_s)

    async def close(self) -> None:
        """The end of all of them, and of the ports."""
        self._leaving = True
        for keeper in self._keepers:
            keeper.cancel()
        processes = [*self._processes.values()]
        if self._spare is not None:
            processes.append(self._spare)
        for process in processes:
            process.kill()
        await asyncio.gather(*(process.ended.wait() for process in processes))
        for listener in self._listeners.values():
            listener.held.close()

    async def _new(self) -> "FrontEndProcess":
        answers = Answers(self._core, self._unit_headers)
        process = FrontEndProcess(self._core, self._heads, self._handlers, answers)
        await process.start(self._plan.environment)
        return process

    def _take(self, number: int, process: "FrontEndProcess") -> None:
        """From now on it is the front end of this number."""
        self._processes[number] = process
        process.count_changes(self._changes)
        process.tell(self._config())

    async def _keep(self, number: int) -> None:
        quick = 0
        while True:
            process = self._processes[number]
            started = time.monotonic()
            await process.ended.wait()
            if self._leaving:
                return
            logger.error(
                "front-end process %d has ended (%s): its %d requests are cancelled, another takes its place",
                process.pid,
                process.status,
                process.lost,
            )
            quick = quick + 1 if time.monotonic() - started < _QUICK_S else 0
            await asyncio.sleep(min(quick * 0.25, _MAX_PAUSE_S))
            try:
                await self._replace(number)
            except (NotServed, OSError) as error:
                logger.error("a front-end process could not be started: %s", error)

    async def _replace(self, number: int) -> None:
        process, self._spare = self._spare, None
        self._spare_taken.set()
        if process is None or process.ended.is_set():
            process = await self._new()
        self._take(number, process)
        await process.listening()

    async def _keep_spare(self) -> None:
        """To read its code takes a process longer than its clients should wait."""
        while True:
            if self._spare is None or self._spare.ended.is_set():
                with contextlib.suppress(OSError):
                    self._spare = await self._new()
            self._spare_taken.clear()
            with contextlib.suppress(TimeoutError):  # it may also die on its own
                await asyncio.wait_for(self._spare_taken.wait(), _SPARE_S)

    def _config(self) -> dict[str, Any]:
        plan, handlers = self._plan, self._handlers
        return {
            "log": asdict(self._core.log.settings),
            "malloc": sorted(plan.malloc),
            "propagates": plan.propagates,
            "http": self._told("HTTP", rows=handlers.rows),
            "grpc": self._told("GRPC", methods=handlers.methods),
        }

    def _told(self, name: str, **more: Any) -> dict[str, Any] | None:
        """What a process is told of a listener."""
        listener = self._listeners.get(name)
        if listener is None:
            return None
        options = {**options_value(self._options(name)), "reuse_port": True}
        return {"host": listener.host, "port": listener.port, "options": options, **more}

    def _options(self, name: str) -> HttpOptions | GrpcOptions:
        return self._plan.http_options if name == "HTTP" else self._plan.grpc_options

    def _log_changed(self, settings: LogSettings) -> None:
        for process in self._processes.values():
            process.send_log_settings(asdict(settings))


class FrontEndProcess:
    """One of them: started, spoken to, watched and ended. Event loop only."""

    def __init__(
        self, core: CorePort, heads: HeadMemory, handlers: Handlers, answers: Answers
    ) -> None:
        self.pid = 0
        self.status = ""
        self.lost = 0  # requests that it had under way when it died
        self.ended = asyncio.Event()
        self._answers = answers
        self._fds = LinkFds.make()
        self._link = Link(
            self._fds, executor=True, received=self._received, broken=self._misbehaves
        )
        self._intake = Intake(
            core, self._link, heads, call=handlers.call, stuck=lambda: self._end("it does not read")
        )
        self._listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed: dict[str, asyncio.Event] = {}
        self._process: subprocess.Popen[bytes]
        self._pidfd = -1
        self._control: asyncio.StreamWriter
        self._told: asyncio.Task[None]
        self._asked: asyncio.BaseTransport

    async def start(self, environment: Mapping[str, str]) -> None:
        loop = asyncio.get_running_loop()
        control, their_control = socket.socketpair()
        asking, their_asking = socket.socketpair()
        with their_control, their_asking:
            given = {
                "control": their_control.fileno(),
                "asking": their_asking.fileno(),
                "memory": self._fds.memory,
                "wake_executor": self._fds.wake_executor,
                "wake_front_end": self._fds.wake_front_end,
            }
            self._process = await asyncio.to_thread(_spawn, given, environment)
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        loop.add_reader(self._pidfd, self._has_ended)
        self._link.start(loop)
        for own in (control, asking):
            own.setblocking(False)
        reader, self._control = await asyncio.open_unix_connection(sock=control)
        self._asked, _ = await loop.create_unix_connection(
            lambda: _Lookups(self._answers), sock=asking
        )
        self._told = asyncio.create_task(self._listen(reader))

    async def listening(self) -> None:
        """Raises NotServed with what hinders it."""
        try:
            await asyncio.wait_for(asyncio.shield(self._listening), _START_S)
        except TimeoutError:
            self._end("it does not start")
            raise NotServed("a front-end process does not start") from None

    def tell(self, value: Any) -> None:
        if not self.ended.is_set():
            self._control.write(orjson.dumps(value) + b"\n")

    async def closed(self, listener: str) -> None:
        """Returns when it says so, or is dead."""
        event = self._closed.setdefault(listener, asyncio.Event())
        if not self.ended.is_set():
            await event.wait()

    def count_changes(self, count: int) -> None:
        if not self.ended.is_set():
            self._link.page[CHANGES] = count

    def send_log_settings(self, values: dict[str, Any]) -> None:
        if not self.ended.is_set():
            self._intake.send_log_settings(values)

    def kill(self) -> None:
        if not self.ended.is_set():
            self._process.kill()

    def _received(self, message: Any) -> None:
        self._intake.received(message)

    def _misbehaves(self, error: Exception) -> None:
        logger.error("front-end process %d says what can not be", self.pid, exc_info=error)
        self._end("it sent nonsense")

    def _end(self, reason: str) -> None:
        self.status = self.status or reason
        self.kill()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                told = orjson.loads(line)
                if "closed" in told:
                    self._closed.setdefault(told["closed"], asyncio.Event()).set()
                elif self._listening.done():
                    continue
                elif "failed" in told:
                    self._listening.set_exception(NotServed(told["failed"], told["listener"]))
                else:
                    self._listening.set_result(None)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._process.wait()
        self.status = self.status or f"status {code}"
        self.lost = self._intake.inflight
        self.ended.set()
        self._link.close()
        self._intake.close()
        self._control.close()
        self._asked.close()
        if not self._listening.done():
            self._listening.set_exception(NotServed("a front-end process died as it started"))
            self._listening.exception()  # whoever waits is told; nobody has to
        for event in self._closed.values():
            event.set()


class _Lookups(asyncio.Protocol):
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answers.feed(data))


def _spawn(
    descriptors: Mapping[str, int], environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    path = os.pathsep.join(filter(None, (_ROOT, environment.get("PYTHONPATH", ""))))
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, json.dumps(dict(descriptors))],
        stdin=subprocess.DEVNULL,
        pass_fds=tuple(descriptors.values()),
        start_new_session=True,
        env={**environment, "PYTHONPATH": path},
    )
