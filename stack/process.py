"""One supervised child: its own process group, prefixed log lines, restart with back-off."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path

from stack.health import Health

_PR_SET_PDEATHSIG = 1
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 15.0
_SETTLED_AFTER_S = 30.0  # a part that lived this long starts its back-off anew
_KEPT_LINES = 40
_LINE_LIMIT = 256 * 1024


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    name: str
    command: tuple[str, ...]
    health: Health
    colour: int = 37
    stop_signal: signal.Signals = signal.SIGTERM
    stop_grace_s: float = 4.0
    ready_file: Path | None = None  # removed before each start
    environment: dict[str, str] = field(default_factory=dict)


def _die_with_parent() -> None:
    """A supervisor killed with -9 must not leave children that hold the ports."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class SupervisedProcess:
    """Keeps one child running until told to stop."""

    def __init__(
        self,
        spec: ProcessSpec,
        *,
        environment: dict[str, str],
        cwd: Path,
        log_dir: Path,
        on_line: Callable[[ProcessSpec, str], None],
    ) -> None:
        self.spec = spec
        self.restarts = 0
        self.recent: deque[str] = deque(maxlen=_KEPT_LINES)
        self._environment = {**environment, **spec.environment}
        self._cwd = cwd
        self._log_path = log_dir / f"{spec.name}.log"
        self._on_line = on_line
        self._child: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.returncode is None else None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running(), name=self.spec.name)

    async def healthy(self) -> bool:
        return self.pid is not None and await self.spec.health()

    async def stop(self) -> None:
        """Asks, waits, then kills the whole group. Returns when nothing of it runs."""
        self._stopping = True
        child = self._child
        if child and child.returncode is None:
            self._signal(self.spec.stop_signal)
            try:
                await asyncio.wait_for(child.wait(), self.spec.stop_grace_s)
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await child.wait()
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        if self._child is None:
            return
        try:
            os.killpg(self._child.pid, signum)
        except (ProcessLookupError, PermissionError):
            return

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        backoff = _FIRST_BACKOFF_S
        while not self._stopping:
            born = loop.time()
            code = await self._run_once()
            self._signal(signal.SIGKILL)  # grandchildren of a killed part go with it
            if self._told_to_stop():
                return
            if loop.time() - born > _SETTLED_AFTER_S:
                backoff = _FIRST_BACKOFF_S
            self._tell(f"ended with {_ending(code)}; starting again in {backoff:g} s")
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF_S)
            self.restarts += 1

    def _told_to_stop(self) -> bool:
        """Asked again after every wait: `stop` may have been called meanwhile."""
        return self._stopping

    async def _run_once(self) -> int:
        if self.spec.ready_file:
            self.spec.ready_file.unlink(missing_ok=True)
        self._child = await asyncio.create_subprocess_exec(
            *self.spec.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._cwd,
            env=self._environment,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            limit=_LINE_LIMIT,
        )
        reader = asyncio.create_task(self._copy_lines(self._child))
        code = await self._child.wait()
        # A grandchild may hold the pipe open; its lines are not worth waiting for.
        await asyncio.wait([reader], timeout=1)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        return code

    async def _copy_lines(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        log = RotatingFileHandler(self._log_path, maxBytes=10_000_000, backupCount=3)
        try:
            while True:
                try:
                    raw = await child.stdout.readline()
                except ValueError:  # a line over the limit; what follows is readable again
                    continue
                if not raw:
                    return
                line = raw.decode(errors="replace").rstrip()
                self.recent.append(line)
                log.emit(logging.makeLogRecord({"msg": line}))
                self._on_line(self.spec, line)
        finally:
            log.close()

    def _tell(self, text: str) -> None:
        self.recent.append(text)
        self._on_line(self.spec, text)


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
