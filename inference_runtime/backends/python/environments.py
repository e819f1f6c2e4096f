"""EXECUTION_ENV_PATH: the interpreter a model's process runs on, unpacked once for all who name the archive.

An archive is somebody's file: what is absolute, leads out of its directory, or is no plain file, directory
or inner link is refused, and so is what grows beyond bounds.
"""

import fcntl
import lzma
import os
import shutil
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from inference_runtime.errors import InvalidArgument

_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
_PREFIX = "python_env_"
_LOCK = ".in-use"
MAX_BYTES = 64 << 30
MAX_ENTRIES = 1_000_000

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Environment:
    """A directory with an interpreter in it; `key` is what to give back when it is used no more."""

    directory: Path
    key: Key | None = None

    @property
    def interpreter(self) -> str:
        return str(self.directory / "bin" / "python")

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """What its activate script would change."""
        path = (str(self.directory / "bin"), base.get("PATH", ""))
        libraries = (str(self.directory / "lib"), base.get("LD_LIBRARY_PATH", ""))
        return {
            **base,
            "PATH": os.pathsep.join(filter(None, path)),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
            "CONDA_PREFIX": str(self.directory),
        }


@dataclass(slots=True)
class _Unpacked:
    directory: Path
    lock: IO[bytes]
    users: int = 0


class EnvironmentStore:
    """Any thread. A directory goes with its last user; those of a server that crashed, at the next unpacking."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unpacked: dict[Key, _Unpacked] = {}

    def acquire(self, value: str, model_directory: Path) -> Environment:
        """Raises InvalidArgument. To be given back with `release`."""
        path = Path(value.replace(_MODEL_DIRECTORY, str(model_directory)))
        if path.is_dir():
            _check(path)
            return Environment(path)
        try:
            key = os.path.realpath(path), path.stat().st_mtime_ns
        except OSError as error:
            raise InvalidArgument(f"the environment '{path}' can not be read: {error}") from error
        with self._lock:
            unpacked = self._unpacked.get(key)
            if unpacked is None:
                _sweep()
                unpacked = _unpack(Path(key[0]))
                self._unpacked[key] = unpacked
            unpacked.users += 1
            return Environment(unpacked.directory, key)

    def release(self, environment: Environment) -> None:
        if environment.key is None:
            return
        with self._lock:
            unpacked = self._unpacked[environment.key]
            unpacked.users -= 1
            if not unpacked.users:
                del self._unpacked[environment.key]
                shutil.rmtree(unpacked.directory, ignore_errors=True)
                unpacked.lock.close()


def _check(directory: Path) -> None:
    activate = directory / "bin" / "activate"
    if not activate.is_file():
        raise InvalidArgument(
            f"Path {activate} does not exist. The Python environment should contain an 'activate' script."
        )


def _unpack(archive: Path) -> _Unpacked:
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = (directory / _LOCK).open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with tarfile.open(archive, "r:*") as opened:
            _extract(opened, directory)
            _read_to_the_end(opened)
        _check(directory)
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        _discard(directory, lock)
        raise InvalidArgument(
            f"the environment archive '{archive}' can not be unpacked: {error}"
        ) from error
    except BaseException:
        _discard(directory, lock)
        raise
    return _Unpacked(directory, lock)


def _discard(directory: Path, lock: IO[bytes]) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    lock.close()


def _extract(archive: tarfile.TarFile, directory: Path) -> None:
    total = 0
    for count, member in enumerate(archive):
        total += member.size
        if count >= MAX_ENTRIES or total > MAX_BYTES:
            raise InvalidArgument("the environment archive is refused: it is too large")
        _check_member(member, directory)
        _strip(member)
        # The early releases of Python 3.11 have no filters, so that the checks are ours; the later want one named.
        if hasattr(tarfile, "data_filter"):
            archive.extract(member, directory, filter="data")
        else:
            archive.extract(member, directory)


def _read_to_the_end(archive: tarfile.TarFile) -> None:
    """Behind the last entry stands the checksum of what was compressed; nobody else reads so far."""
    assert archive.fileobj is not None
    left = MAX_BYTES
    while left > 0 and (rest := archive.fileobj.read(1 << 20)):
        left -= len(rest)


def _check_member(member: tarfile.TarInfo, directory: Path) -> None:
    """Raises InvalidArgument for what is no file, directory or link, and for what leads out."""
    label = f"the environment archive is refused: its entry '{member.name[:256]}'"
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise InvalidArgument(f"{label} is no file, directory or link")
    root = directory.resolve()
    # What was unpacked before may be a link: the place is where it leads now.
    place = (root / PurePosixPath(member.name).parent).resolve()
    if not _inside(PurePosixPath(member.name)) or not place.is_relative_to(root):
        raise InvalidArgument(f"{label} leads out of it")
    if member.issym():
        target = PurePosixPath(member.name).parent / member.linkname
        if not _inside(target) or not (place / member.linkname).resolve().is_relative_to(root):
            raise InvalidArgument(f"{label} leads out of it")
    if member.islnk():
        known = (root / member.linkname).resolve()
        if not _inside(PurePosixPath(member.linkname)) or not known.is_relative_to(root):
            raise InvalidArgument(f"{label} leads out of it")


def _inside(name: PurePosixPath) -> bool:
    """By the words alone: not absolute, and never above where it begins."""
    depth = 0
    for part in name.parts:
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            return False
    return True


def _strip(member: tarfile.TarInfo) -> None:
    """No owner but ours, and no rights beyond those of a usual file."""
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o600)


def _sweep() -> None:
    """What a server left behind that could not clean up: nobody holds its lock."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            with (directory / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:
            continue  # in use, or not ours


ENVIRONMENTS = EnvironmentStore()
