"""Threads on the processors and the memory that a host policy names. Linux; elsewhere a policy only warns.

What a thread starts inherits its place: the threads of a library's pool and the processes of a model
are where the thread that loaded it was.
"""

import ctypes
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inference_runtime.spec.host_policy import HostPolicy, read_cores

logger = logging.getLogger(__name__)

_NODES = Path("/sys/devices/system/node")
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}  # number of the system call
_DEFAULT, _BIND = 0, 2
_MASK_BITS = 1024


def available_cores() -> frozenset[int]:
    """Those that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def node_cores(node: int) -> tuple[int, ...]:
    """Empty where there is no such node."""
    try:
        return read_cores((_NODES / f"node{node}/cpulist").read_text())
    except (OSError, ValueError):
        return ()


def bind_thread(policy: HostPolicy) -> None:
    """The calling thread, for good."""
    cores = policy.cores or (() if policy.numa_node is None else node_cores(policy.numa_node))
    try:
        if cores:
            os.sched_setaffinity(0, cores)
        if policy.numa_node is not None:
            _set_memory_policy(_BIND, 1 << policy.numa_node)
    except OSError as error:
        logger.warning("host policy %s can not be applied: %s", policy, error)


@contextmanager
def bound(policy: HostPolicy | None) -> Iterator[None]:
    """The calling thread, for a while."""
    if policy is None:
        yield
        return
    before = os.sched_getaffinity(0)
    bind_thread(policy)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        if policy.numa_node is not None:
            _set_memory_policy(_DEFAULT, 0)


def _set_memory_policy(mode: int, nodes: int) -> None:
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        logger.warning("no way is known to bind memory to a node on %s", platform.machine())
        return
    words = [(nodes >> shift) & (2**64 - 1) for shift in range(0, _MASK_BITS, 64)]
    mask = (ctypes.c_uint64 * len(words))(*words)
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel wants one bit more than it looks at.
    if libc.syscall(number, mode, mask if nodes else None, (_MASK_BITS + 1) if nodes else 0):
        code = ctypes.get_errno()
        logger.warning("memory can not be bound to a node: %s", os.strerror(code))
