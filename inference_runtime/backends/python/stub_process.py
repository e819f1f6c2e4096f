"""One process of a model: made, spoken to, watched and ended. It dies with the server whatever happens.

Its end is seen by the event loop through a descriptor of the process itself, so that nothing polls and no
zombie stays; a grandchild that holds a socket can not hide it.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from inference_runtime.backends.python.side_channel import Received, SideChannel, read_text
from inference_runtime.backends.python.wire import frames
from inference_runtime.backends.python.wire.arena import ArenaReader, ArenaWriter, new_memory
from inference_runtime.backends.python.wire.frames import BrokenFrame, Buffer, Kind
from inference_runtime.errors import (
    Internal,
    InvalidArgument,
    RuntimeFault,
    Unavailable,
    Unsupported,
)

logger = logging.getLogger(__name__)

_ROOT = str(Path(__file__).resolve().parents[3])
_KILL_SECONDS = 5.0  # from SIGKILL to the end, on a machine that is very busy
_NEWS_SECONDS = 2.0  # from the end of its sockets to that of the process
_BUFFER = 1 << 20  # of the sockets: a batch goes through in one piece
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Launch:
    """How the processes of one instance are started."""

    name: str  # of the instance
    interpreter: str
    environment: Mapping[str, str]
    arena_size: int
    memory_name: str
    start_limit: float
    resource_limits: Mapping[str, int] = field(default_factory=dict)
    module: str = "inference_runtime.backends.python.stub"


def load_fault(text: Any) -> RuntimeFault:
    """Why a process could not load its model, with the code that it gives, if any."""
    kinds = {"INVALID_ARG": InvalidArgument, "UNAVAILABLE": Unavailable, "UNSUPPORTED": Unsupported}
    return kinds.get(text.get("code"), Internal)(str(text["text"]))


def not_healthy(name: str) -> Internal:
    return Internal(f"Stub process '{name}' is not healthy.")


def ending(status: int) -> str:
    """Of a process whose end nobody here has asked for."""
    if status >= 0:
        return f"It ended with exit status {status}."
    text = f"It ended with signal {-status} ({signal.strsignal(-status)})."
    if -status == signal.SIGKILL:
        text += (
            " If nobody killed it, it ran out of memory (the kernel's log tells) or of an RLIMIT_CPU:"
            " allow it more, or run fewer instances or smaller batches."
        )
    return text


class StubProcess:
    """`begin`, `exchange` and `stop` by one thread at a time, never the event loop's; `kill` by any."""

    def __init__(
        self,
        launch: Launch,
        loop: asyncio.AbstractEventLoop,
        *,
        received: Received,
        exited: Callable[["StubProcess"], None],
    ) -> None:
        self.number = next(_NUMBERS)  # no other has it, unlike a process id
        self._launch = launch
        self._loop = loop
        self._exited = exited
        self.gone = threading.Event()
        self.doomed = False  # it is being ended, or has ended
        self._dismissed = False  # the server wants it gone
        self._ending = ""  # how it ended, where that was its own doing
        self._using = threading.Lock()  # of the channel of executions
        size = launch.arena_size
        with contextlib.ExitStack() as handed_over:
            executions, stub_executions = _pair(handed_over)
            side, stub_side = _pair(handed_over)
            their_end, self._lifeline = os.pipe2(os.O_CLOEXEC)
            handed_over.callback(os.close, their_end)
            out_fd, in_fd = (new_memory(launch.memory_name + way, size) for way in ("out", "in"))
            handed_over.callback(os.close, out_fd)
            handed_over.callback(os.close, in_fd)
            self._executions = executions
            self.channel = SideChannel(
                ArenaReader(in_fd, size),
                ArenaWriter(out_fd, size),
                received=received,
                broken=self._broken,
            )
            descriptors = {
                "executions": stub_executions.fileno(),
                "side": stub_side.fileno(),
                "lifeline": their_end,
                "inbound": out_fd,
                "outbound": in_fd,
            }
            try:
                self._process = self._spawn(descriptors)
            except OSError as error:
                for each in (executions, side):
                    each.close()
                os.close(self._lifeline)
                raise Internal(
                    f"Stub process '{launch.name}' can not be started: {error}"
                ) from error
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        asyncio.run_coroutine_threadsafe(self._attach(side), loop).result()

    def _spawn(self, descriptors: Mapping[str, int]) -> "subprocess.Popen[bytes]":
        launch = self._launch
        limits = dict(launch.resource_limits)
        if "RLIMIT_AS" in limits:
            limits["RLIMIT_AS"] += 2 * launch.arena_size  # addresses, not memory
        given = {
            **descriptors,
            "root": _ROOT,
            "arena_size": launch.arena_size,
            "limits": limits,
            "python_path": launch.environment.get("PYTHONPATH", ""),
        }
        path = [_ROOT, launch.environment.get("PYTHONPATH", "")]
        return subprocess.Popen(
            [launch.interpreter, "-m", launch.module, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            pass_fds=tuple(descriptors.values()),
            start_new_session=True,
            env={**launch.environment, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        )

    async def _attach(self, side: socket.socket) -> None:
        side.setblocking(False)
        await self._loop.create_unix_connection(lambda: self.channel, sock=side)
        self._loop.add_reader(self._pidfd, self._ended)

    def begin(self, kind: Kind, text: Any) -> Any:
        """START or COMPLETE_CONFIG; what the stub says when it is done. Raises a fault with the reason
        when it is not: the model's own, its end, or that it gives no sign of life."""
        try:
            with self._channel_of_executions():
                return self._begin(frames.frame(kind, orjson.dumps(text)))
        except TimeoutError:
            raise Internal(
                f"Stub process '{self._launch.name}' gave no sign of life for "
                f"{self._launch.start_limit:g} s."
            ) from None
        except (OSError, EOFError, BrokenFrame, ValueError) as error:
            raise self._death() from error

    def _begin(self, parts: Sequence[Buffer]) -> Any:
        executions = self._executions
        executions.settimeout(self._launch.start_limit)
        frames.send(executions, parts)
        while True:
            kind, text, _ = frames.receive(executions)
            if kind == Kind.FAILED:
                raise load_fault(read_text(text))
            if kind == Kind.STARTED:
                executions.settimeout(None)
                return read_text(text)

    def exchange(self, parts: Sequence[Buffer]) -> tuple[Any, bytearray]:
        """An EXECUTE frame for its DONE; raises a fault when the process is gone."""
        try:
            with self._channel_of_executions():
                frames.send(self._executions, parts)
                _, text, payload = frames.receive(self._executions)
            return read_text(text), payload
        except (OSError, EOFError):
            self.gone.wait(_NEWS_SECONDS)
            self.kill()
            raise self.fault() from None
        except (BrokenFrame, ValueError):
            # The two do not know any more what the other one means.
            self.kill()
            raise self.fault() from None

    def stop(self, limit: float) -> None:
        """Lets the model finalize, for that long; the process is gone when this returns."""
        self._dismissed = True
        with contextlib.suppress(OSError):
            with self._channel_of_executions():
                self._executions.settimeout(limit)
                frames.send(self._executions, frames.frame(Kind.FINALIZE, b"{}"))
            if not self.gone.wait(limit):
                logger.warning(
                    "'%s' did not finalize within %g s and is ended", self._launch.name, limit
                )
        self.end()

    def end(self) -> None:
        """Kills it, if it still is there, and waits until it is gone."""
        self.kill()
        if not self.gone.wait(_KILL_SECONDS):
            logger.error("process %d of '%s' does not end", self.pid, self._launch.name)

    def kill(self) -> None:
        self.doomed = True
        if not self.gone.is_set():
            self._dismissed = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def fault(self) -> Internal:
        """What those are told who wait for it when it is gone."""
        return Internal(f"{not_healthy(self._launch.name).text} {self._ending}".rstrip())

    def _death(self) -> Internal:
        """For the one who waits for it to start."""
        self.gone.wait(_NEWS_SECONDS)
        self.end()
        return self.fault()

    def resident_bytes(self) -> int:
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _broken(self, reason: str) -> None:
        logger.error("'%s' broke the protocol and is ended: %s", self._launch.name, reason)
        self.kill()

    def _ended(self) -> None:
        self.doomed = True
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # whatever it has started
        status = self._process.wait()  # it has ended: this reaps it
        if not self._dismissed:
            self._ending = ending(status)
            logger.error("'%s' (process %d): %s", self._launch.name, self.pid, self._ending)
        with contextlib.suppress(OSError):
            self._executions.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for an answer
        self.channel.close()
        os.close(self._lifeline)
        self.gone.set()
        self._close_if_gone()
        self._exited(self)

    @contextlib.contextmanager
    def _channel_of_executions(self) -> Iterator[None]:
        """No descriptor is closed while a thread is about to use its number."""
        try:
            with self._using:
                yield
        finally:
            self._close_if_gone()

    def _close_if_gone(self) -> None:
        if self.gone.is_set() and self._using.acquire(blocking=False):
            try:
                self._executions.close()
            finally:
                self._using.release()


def _pair(handed_over: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Ours and the stub's; the stub's is closed here once the process has its own."""
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    handed_over.callback(theirs.close)
    return ours, theirs
