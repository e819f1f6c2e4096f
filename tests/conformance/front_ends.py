"""The front-end processes of a runtime: which there are, and which one has a connection."""

import socket
from pathlib import Path

from tests.conformance.runtime_process import RuntimeProcess

_MODULE = "inference_runtime.processes"


def front_ends(server: RuntimeProcess) -> list[int]:
    """Process ids of those that listen."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(local=server.ports["HTTPService"], remote=0)}
    return [pid for pid in waiting_too(server) if inodes & _descriptors(pid)]


def waiting_too(server: RuntimeProcess) -> list[int]:
    """And of those that stand ready."""
    return [pid for pid in _children(server.process.pid) if _is_front_end(pid)]


def owner(server: RuntimeProcess, connection: socket.socket) -> int:
    """The front end that has accepted it; 0: none has yet."""
    (_, own), (_, theirs) = connection.getsockname(), connection.getpeername()
    inodes = {f"socket:[{inode}]" for inode in _inodes(local=theirs, remote=own)}
    return next((pid for pid in front_ends(server) if inodes & _descriptors(pid)), 0)


def alive(pid: int) -> bool:
    """A zombie is not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def _children(parent: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if alive(pid) and _stat(pid)[1] == str(parent)]


def _is_front_end(pid: int) -> bool:
    try:
        return _MODULE in Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """State, parent and what follows."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _inodes(*, local: int, remote: int) -> set[str]:
    """Of the sockets between these ports; remote 0: of those that listen."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.rpartition(":")[2], 16) for address in fields[1:3]]
        if ports == [local, remote]:
            found.add(fields[9])
    return found - {"0"}


def _descriptors(pid: int) -> set[str]:
    found = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found.add(str(entry.readlink()))
            except OSError:
                continue
    except OSError:
        return set()
    return found
