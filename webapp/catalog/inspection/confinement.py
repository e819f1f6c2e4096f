"""Takes rights away from this process before it touches untrusted bytes. Linux; each step best effort.

What every run gets: resource limits, death with the parent, no new privileges. Where the kernel
allows it: no network (own network namespace), files readable only below given folders and writable
only in the work folder, no program can be started (Landlock). What was achieved is reported as
evidence, so nobody has to believe it.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from webapp.catalog.inspection.subject import Limits

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_CLONE_NEWIPC = 0x08000000
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_ADD_RULE = 445
_SYS_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION = 1
_RULE_PATH_BENEATH = 1
_READ = (1 << 2) | (1 << 3)  # read file, read directory
# What a ruleset of each ABI may name: 1: 13 rights, 2: + refer, 3: + truncate, 5: + device ioctl.
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
_RIGHTS_NEWEST = 16
_EXECUTE = 1
_MOST_THREADS = 256
_OOM_FIRST = "1000"


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def confine(limits: Limits, *, work: Path, readable: Sequence[Path]) -> list[str]:
    """Call first, while the process has one thread. Returns what holds, in words."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_FIRST)
    held = []
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        held.append("no network")
        # Inside a namespace of our own the count starts at us; outside it would count the user.
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_THREADS, _MOST_THREADS))
    if _landlock(libc, work, readable):
        held.append("files outside its folder hidden")
    _limit(limits)
    return [*held, "memory, CPU time and file size limited"]


def _limit(limits: Limits) -> None:
    for kind, value in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.max_unpacked_bytes),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    # The soft limit ends the process with a signal the parent can tell from others.
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 5))


def _landlock(libc: ctypes.CDLL, work: Path, readable: Sequence[Path]) -> bool:
    version = libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)
    if version < 1:
        return False
    rights = (1 << _RIGHTS_BY_ABI.get(version, _RIGHTS_NEWEST)) - 1
    # TCP bind and connect are named from ABI 4 on; none is ever allowed.
    ruleset = _Ruleset(rights, 3 if version >= 4 else 0)
    size = 16 if version >= 4 else 8
    descriptor = libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(ruleset), size, 0)
    if descriptor < 0:
        return False
    try:
        allowed = [(work, rights & ~_EXECUTE), *((path, _READ) for path in readable)]
        for path, access in allowed:
            if path.exists() and not _allow(libc, descriptor, path, access & rights):
                return False
        return bool(libc.syscall(_SYS_LANDLOCK_RESTRICT_SELF, descriptor, 0) == 0)
    finally:
        os.close(descriptor)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, access: int) -> bool:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = access if path.is_dir() else access & ~(1 << 3)
        rule = _PathBeneath(rights, opened)
        return bool(
            libc.syscall(_SYS_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
            == 0
        )
    finally:
        os.close(opened)
