"""Runs the inspection child and watches over it: events as they come, one end, whatever happens."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webapp.catalog.inspection.names import CHECK_NAMES, NOT_REACHED, TITLES

_MOST_EVENT_BYTES = 8 * 1024 * 1024
_KEPT_ERROR_BYTES = 8 * 1024
_READ_BYTES = 64 * 1024
_TICK_SECONDS = 0.25
_EXIT_SECONDS = 5.0
_CODE = Path(__file__).resolve().parent.parent.parent


@dataclass(slots=True)
class Findings:
    """What the child found, check by check; `accepted` only when it said so at its proper end."""

    checks: list[dict[str, str]] = field(default_factory=list)
    running: str = ""
    confined: list[str] = field(default_factory=list)
    result: dict[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        return bool(self.result and self.result["accepted"]) and not self.failure

    @property
    def failure(self) -> dict[str, str] | None:
        return next((check for check in self.checks if check["status"] == "failed"), None)


class InspectionStopped(Exception):
    """The caller asked for the end; the child is gone."""


def inspect_in_child(
    *,
    work: Path,
    assignment: dict[str, Any],
    wall_seconds: float,
    progressed: Callable[[Findings], None],
    should_stop: Callable[[], bool],
) -> Findings:
    """Blocks until the child ends. `progressed` is called several times a second, changed or not."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", "webapp.catalog.sandbox_child", str(work)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=work,
        env=_environment(work),
        start_new_session=True,
    )
    watch = _Watch(child, wall_seconds)
    try:
        watch.send(json.dumps(assignment).encode())
        ended = watch.follow(progressed, should_stop)
    finally:
        _end_group(child)
    if not ended:
        raise InspectionStopped
    _account_for_death(watch, child.returncode)
    return watch.findings


def _environment(work: Path) -> dict[str, str]:
    """Nothing of ours: no secret, no address, no token."""
    return {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(_CODE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(work),
        "TMPDIR": str(work),
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


class _Watch:
    def __init__(self, child: "subprocess.Popen[bytes]", wall_seconds: float) -> None:
        self.findings = Findings()
        self.timed_out = False
        self.errors = b""
        self._child = child
        self._wall_seconds = wall_seconds
        self._deadline = time.monotonic() + wall_seconds
        self._pending = b""
        self._received = 0

    @property
    def wall_seconds(self) -> float:
        return self._wall_seconds

    def send(self, request: bytes) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it died at once; its end is accounted for later
            self._child.stdin.write(request)
            self._child.stdin.close()

    def follow(
        self, progressed: Callable[[Findings], None], should_stop: Callable[[], bool]
    ) -> bool:
        """Reads until both pipes end; False when the caller wanted it stopped."""
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self._child.stdout, selectors.EVENT_READ, self._take_events)
            ready.register(self._child.stderr, selectors.EVENT_READ, self._take_errors)
            while ready.get_map():
                for key, _ in ready.select(_TICK_SECONDS):
                    block = os.read(key.fd, _READ_BYTES)
                    if not block:
                        ready.unregister(key.fileobj)
                    else:
                        key.data(block)
                progressed(self.findings)
                if should_stop():
                    return False
                if time.monotonic() > self._deadline:
                    self.timed_out = True
                    return True
        self._await_exit()
        return True

    def _await_exit(self) -> None:
        """Both pipes are closed, so it is about to end. Left unreaped, so its group id stays its own."""
        deadline = time.monotonic() + _EXIT_SECONDS
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while time.monotonic() < deadline:
            if os.waitid(os.P_PID, self._child.pid, look) is not None:
                return
            time.sleep(0.01)

    def _take_errors(self, block: bytes) -> None:
        self.errors = (self.errors + block)[-_KEPT_ERROR_BYTES:]

    def _take_events(self, block: bytes) -> None:
        self._received += len(block)
        if self._received > _MOST_EVENT_BYTES:
            _kill(self._child)
            return
        *lines, self._pending = (self._pending + block).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        """The child may be in hostile hands by now: believe shapes only after looking."""
        try:
            event = json.loads(line)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        found = self.findings
        if event.get("started") in CHECK_NAMES:
            found.running = event["started"]
        elif isinstance(check := event.get("check"), dict) and check.get("name") in CHECK_NAMES:
            found.running = ""
            if all(check["name"] != seen["name"] for seen in found.checks):
                found.checks.append(
                    {key: str(check.get(key, "")) for key in ("name", "status", "detail", "fix")}
                )
        elif isinstance(event.get("result"), dict):
            found.result = event["result"]
        elif isinstance(event.get("confined"), list):
            found.confined = [str(item) for item in event["confined"]]


def _account_for_death(watch: _Watch, returncode: int) -> None:
    """A child that died before its report was complete failed the check it was running."""
    found = watch.findings
    if found.result is not None and not watch.timed_out:
        return
    found.result = None
    if found.failure is None:
        name = found.running or next(
            (name for name in CHECK_NAMES if all(name != row["name"] for row in found.checks)),
            CHECK_NAMES[-1],
        )
        detail, fix = _last_words(watch, returncode)
        found.checks.append({"name": name, "status": "failed", "detail": detail, "fix": fix})
    found.running = ""
    stopped_by = TITLES[found.checks[-1]["name"]]
    seen = {row["name"] for row in found.checks}
    found.checks.extend(
        {
            "name": name,
            "status": "skipped",
            "detail": f"{NOT_REACHED}: {stopped_by} failed.",
            "fix": "",
        }
        for name in CHECK_NAMES
        if name not in seen
    )


def _last_words(watch: _Watch, returncode: int) -> tuple[str, str]:
    if watch.timed_out:
        return (
            f"It took longer than the {watch.wall_seconds:,.0f} s a check may take.",
            "Upload a smaller model, or raise SWITCHYARD_CHECK_SECONDS.",
        )
    if returncode == -signal.SIGXCPU:
        return (
            "It used more CPU time than a check may use.",
            "Upload a smaller model, or raise SWITCHYARD_CHECK_SECONDS.",
        )
    if returncode == -signal.SIGKILL or b"MemoryError" in watch.errors:
        return (
            "The system ended the check, most likely because memory ran out.",
            "Upload a smaller model, or give the machine more memory.",
        )
    if returncode < 0:
        name = signal.Signals(-returncode).name
        return (
            f"The check crashed ({name}) on this file; nothing else was affected.",
            "A file that crashes ONNX Runtime here would crash it in service: export it again.",
        )
    last = watch.errors.decode("utf-8", "replace").strip().splitlines()[-1:]
    return (
        f"The check ended without a report (exit {returncode}). {' '.join(last)[:300]}".strip(),
        "Upload again; if it repeats, the worker's log has the details.",
    )


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    """Nothing the child started outlives it."""
    _kill(child)
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _kill(child: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
