"""A supervised child is restarted when it dies and leaves nothing when it is stopped."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from stack.health import touched
from stack.process import ProcessSpec, SupervisedProcess

LONG = "import time; time.sleep(60)"


async def eventually(question: Callable[[], object], within: float = 10) -> None:
    async with asyncio.timeout(within):
        while not question():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def supervised(
    folder: Path, program: str, **changes: object
) -> AsyncIterator[tuple[SupervisedProcess, list[str]]]:
    lines: list[str] = []
    spec = ProcessSpec(
        name="part",
        command=(sys.executable, "-u", "-c", program),
        health=touched(folder / "ready"),
        **changes,  # type: ignore[arg-type]
    )
    process = SupervisedProcess(
        spec,
        environment=dict(os.environ),
        cwd=folder,
        log_dir=folder,
        on_line=lambda _spec, line: lines.append(line),
    )
    process.start()
    try:
        yield process, lines
    finally:
        await process.stop()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_killed_part_is_started_again(tmp_path: Path) -> None:
    async with supervised(tmp_path, LONG) as (process, lines):
        await eventually(lambda: process.pid)
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: process.pid not in {None, first})
        assert process.restarts == 1
        assert any("SIGKILL" in line and "starting again" in line for line in lines)


async def test_its_lines_reach_the_console_and_the_log_file(tmp_path: Path) -> None:
    async with supervised(tmp_path, "print('hello'); " + LONG) as (process, lines):
        await eventually(lambda: "hello" in lines)
        await eventually(lambda: "hello" in (tmp_path / "part.log").read_text())
        assert list(process.recent) == ["hello"]


async def test_a_line_without_end_does_not_stop_the_reading(tmp_path: Path) -> None:
    program = "print('x' * 700_000); print('after'); " + LONG
    async with supervised(tmp_path, program) as (_process, lines):
        await eventually(lambda: "after" in lines)


async def test_stop_kills_a_part_that_ignores_the_signal_and_its_children(tmp_path: Path) -> None:
    program = (
        "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"child = subprocess.Popen([sys.executable, '-c', {LONG!r}]); print(child.pid);"
        "time.sleep(60)"
    )
    async with supervised(tmp_path, program, stop_grace_s=0.3) as (process, lines):
        await eventually(lambda: lines)
        pid, grandchild = process.pid, int(lines[0])
        assert pid is not None
    assert not alive(pid)
    await eventually(lambda: not alive(grandchild))


async def test_a_part_is_healthy_only_after_it_says_so(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()  # left over from a run before
    program = f"import time, pathlib; time.sleep(0.2); pathlib.Path({str(ready)!r}).touch(); time.sleep(60)"
    async with supervised(tmp_path, program, ready_file=ready) as (process, _lines):
        await eventually(lambda: process.pid)
        assert not await process.healthy()
        async with asyncio.timeout(10):
            while not await process.healthy():
                await asyncio.sleep(0.02)
