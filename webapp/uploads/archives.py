"""Unpacks zip, tar and tar.gz within limits: no links, no outside paths, no bombs. No Django.

It runs inside the sandboxed child of webapp.catalog, on bytes nobody has looked at yet. Declared
sizes are never believed: what counts is what comes out.
"""

import gzip
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from webapp.uploads.entry_names import EntryNames, EntryRefused

_BLOCK = 1024 * 1024
_RATIO_GRACE_BYTES = 64 * 1024 * 1024  # small archives may shrink as much as they like
_LARGEST_TAR_HEADER = 4 * 1024 * 1024  # pax and GNU long-name records are read into memory


class ArchiveRefused(Exception):
    """The archive cannot be taken. `fix` says what to do about it."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fix = fix


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    max_files: int
    max_bytes: int
    max_ratio: int


@dataclass(frozen=True, slots=True)
class Unpacked:
    kind: str
    file_count: int
    byte_count: int


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def archive_kind(path: Path) -> str:
    """`zip`, `tar`, `tar.gz`, `gz` (a lone stream), or "" for anything else. By content, not name."""
    with path.open("rb") as file:
        head = file.read(512)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return "zip"
    if head.startswith(b"\x1f\x8b"):
        return "tar.gz" if _is_tar(_gzip_head(path)) else "gz"
    return "tar" if _is_tar(head) else ""


def unpack(path: Path, kind: str, into: Path, limits: ArchiveLimits) -> Unpacked:
    """Unpack `path` below the existing, empty folder `into`. Refusal may leave a partial tree."""
    meter = _Meter(limits, path.stat().st_size)
    try:
        if kind == "zip":
            _unpack_zip(path, into, meter)
        else:
            _unpack_tar(path, kind, into, meter)
    except EntryRefused as refused:
        raise ArchiveRefused(refused.detail, refused.fix) from None
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as problem:
        if isinstance(problem, OSError) and not isinstance(problem, gzip.BadGzipFile):
            raise
        raise ArchiveRefused(
            f"The archive is damaged: {problem}.", "Pack it again and upload it again."
        ) from None
    if not meter.file_count:
        raise ArchiveRefused("The archive holds no file.", "Pack the model file and upload again.")
    return Unpacked(kind, meter.file_count, meter.byte_count)


class _Meter:
    """Counts what really comes out, and stops at the limits."""

    def __init__(self, limits: ArchiveLimits, packed_bytes: int) -> None:
        self.file_count = 0
        self.byte_count = 0
        self.names = EntryNames()
        self._limits = limits
        self._packed_bytes = packed_bytes

    def file_begins(self) -> None:
        self.file_count += 1
        if self.file_count > self._limits.max_files:
            raise ArchiveRefused(
                f"The archive holds more than {self._limits.max_files} files.",
                "Pack only what the model needs: model.onnx, its external data, config.pbtxt.",
            )

    def bytes_come_out(self, count: int) -> None:
        self.byte_count += count
        if self.byte_count > self._limits.max_bytes:
            raise ArchiveRefused(
                f"The archive unpacks to more than {self._limits.max_bytes:,} bytes, "
                "the most that is allowed here.",
                "Upload a smaller model, or ask the administrator to raise "
                "SWITCHYARD_MAX_UNPACKED_BYTES or free disk space.",
            )
        allowed = max(_RATIO_GRACE_BYTES, self._packed_bytes * self._limits.max_ratio)
        if self.byte_count > allowed:
            raise ArchiveRefused(
                f"{self._packed_bytes:,} packed bytes have already unpacked to more than "
                f"{allowed:,}: a ratio over {self._limits.max_ratio} is treated as a zip bomb.",
                "Upload the model file itself instead of an archive.",
            )


def _unpack_zip(path: Path, into: Path, meter: _Meter) -> None:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            _check_zip_entry(entry)
            target = meter.names.target(into, entry.filename, is_folder=entry.is_dir())
            if target is None or entry.is_dir():
                continue
            with archive.open(entry) as source:
                _write(source, target, meter)


def _check_zip_entry(entry: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a link" if kind == stat.S_IFLNK else "a special file"
        raise ArchiveRefused(
            f"Entry {entry.filename!r} is {what}.", "Pack the file itself: zip without --symlinks."
        )
    if entry.flag_bits & 0x1:
        raise ArchiveRefused(
            f"Entry {entry.filename!r} is encrypted.", "Pack it again without a password."
        )
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArchiveRefused(
            f"Entry {entry.filename!r} uses compression method {entry.compress_type}.",
            "Pack it again with the usual 'deflate' method, or as tar.gz.",
        )


def _unpack_tar(path: Path, kind: str, into: Path, meter: _Meter) -> None:
    with closing(_open_stream(path, kind)) as raw:
        stream = _HeaderGuard(raw)
        # "r|" reads forward only, so nothing is decompressed twice and no header can send us back.
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|", errorlevel=2) as archive:
            for entry in _tar_entries(archive, stream):
                target = meter.names.target(into, entry.name, is_folder=entry.isdir())
                if target is None or entry.isdir():
                    continue
                source = archive.extractfile(entry)
                if source is None:  # only for links, which were refused
                    raise ArchiveRefused(f"Entry {entry.name!r} has no bytes.", "Pack it again.")
                _write(source, target, meter, expected=entry.size)


def _tar_entries(archive: tarfile.TarFile, stream: "_HeaderGuard") -> Iterator[tarfile.TarInfo]:
    while True:
        stream.header_begins()
        entry = archive.next()
        if entry is None:
            return
        if entry.issym() or entry.islnk():
            raise ArchiveRefused(
                f"Entry {entry.name!r} is a link to {entry.linkname!r}.",
                "Pack the files themselves: tar --dereference --hard-dereference.",
            )
        plain = entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
        if not (plain or entry.isdir()):
            raise ArchiveRefused(
                f"Entry {entry.name!r} is a device, pipe or sparse file.",
                "Pack plain files and folders only.",
            )
        stream.content_begins()
        yield entry


def _open_stream(path: Path, kind: str) -> IO[bytes]:
    opened = gzip.open(path, "rb") if kind == "tar.gz" else path.open("rb")  # noqa: SIM115
    return cast(IO[bytes], opened)


class _HeaderGuard:
    """The tar reader collects a whole extended header in memory; a forged size must not fill it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._header_bytes: int | None = None

    def header_begins(self) -> None:
        self._header_bytes = 0

    def content_begins(self) -> None:
        self._header_bytes = None  # the meter counts content

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        if self._header_bytes is not None:
            self._header_bytes += len(block)
            if self._header_bytes > _LARGEST_TAR_HEADER:
                raise ArchiveRefused(
                    "A header of the archive is larger than 4 MiB.", "Pack it again."
                )
        return block


def _write(source: _Readable, target: Path, meter: _Meter, expected: int | None = None) -> None:
    meter.file_begins()
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with target.open("xb") as file:
        while block := source.read(_BLOCK):
            meter.bytes_come_out(len(block))
            file.write(block)
            written += len(block)
    if expected is not None and written != expected:
        raise ArchiveRefused("The archive ends early.", "Pack it again and upload it again.")


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar" or _is_old_tar(head)


def _is_old_tar(head: bytes) -> bool:
    """A V7 header has no magic, only a checksum over itself."""
    if len(head) < 512 or not head[0]:
        return False
    try:
        return tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape").chksum > 0
    except tarfile.TarError:
        return False


def _gzip_head(path: Path) -> bytes:
    try:
        with gzip.open(path, "rb") as file:
            return file.read(512)
    except (OSError, EOFError, zlib.error):
        return b""
