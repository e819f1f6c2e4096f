"""What the operating system is told about this process before the first line of the model runs."""

import contextlib
import fcntl
import os
import resource
import signal
from collections.abc import Mapping
from pathlib import Path

_F_SETSIG = 10  # fcntl's own name for it came with Python 3.12


def die_with(lifeline: int) -> None:
    """The kernel kills this process when the other end of the pipe closes, whatever the model is doing."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    try:
        gone = os.read(lifeline, 1) == b""
    except BlockingIOError:
        gone = False
    if gone:
        os._exit(1)


def be_the_first_to_go() -> None:
    """When memory runs out the kernel ends the largest process, which may be the server: a model takes its place."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def leave_signals_to_the_server() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def limit(limits: Mapping[str, int]) -> None:
    """By the names of the resource module; a limit that stands already is not raised."""
    for name, value in limits.items():
        which = getattr(resource, name)
        _, hard = resource.getrlimit(which)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bound, bound))
