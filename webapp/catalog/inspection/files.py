"""The checks that look at bytes and names only: size, digest, archive, pickle."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from webapp.catalog.inspection import amounts
from webapp.catalog.inspection.pickle_scan import EXPORT_HINT, pickled
from webapp.catalog.inspection.subject import (
    CheckFailed,
    Outcome,
    PartDigest,
    Subject,
    passed,
    skipped,
)
from webapp.uploads.archives import (
    ArchiveLimits,
    ArchiveRefused,
    Unpacked,
    archive_kind,
    unpack,
)
from webapp.uploads.entry_names import EntryRefused, entry_parts

_BLOCK = 1024 * 1024
_DISK_RESERVE_BYTES = 512 * 1024 * 1024  # the database and the logs must be able to go on
_OTHER_ARCHIVES = {
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!": "rar",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}


def size_and_quota(subject: Subject) -> Outcome:
    if subject.assignment.recheck:
        total = sum(path.stat().st_size for path in files_below(subject.content))
        return passed(f"{amounts.size(total)} published.")
    size = subject.payload.stat().st_size
    declared = subject.assignment.declared_size_bytes
    limit = subject.assignment.limits.max_upload_bytes
    if size == 0:
        raise CheckFailed("The file is empty.", "Choose the model file and upload it again.")
    if size != declared:
        raise CheckFailed(
            f"{size:,} bytes arrived, {declared:,} were announced.", "Upload the file again."
        )
    if size > limit:
        raise CheckFailed(
            f"{amounts.size(size)} are over the limit of {amounts.size(limit)}.",
            "Upload a smaller model, or raise SWITCHYARD_MAX_UPLOAD_BYTES.",
        )
    free = shutil.disk_usage(subject.work).free
    if free < _DISK_RESERVE_BYTES:
        raise CheckFailed(
            f"Only {amounts.size(free)} are free on the disk.",
            "Archive old versions or enlarge the disk, then upload again.",
        )
    return passed(
        f"{amounts.size(size)} of at most {amounts.size(limit)}; {amounts.size(free)} free on the disk."
    )


def digest(subject: Subject) -> Outcome:
    if subject.assignment.recheck:
        return _published_digests(subject)
    whole, part_digests = _hash(subject.payload, subject.assignment.parts)
    subject.payload_sha256 = whole
    subject.metadata["source_sha256"] = whole
    for number, (part, found) in enumerate(
        zip(subject.assignment.parts, part_digests, strict=True), start=1
    ):
        if part.sha256 != found:
            raise CheckFailed(
                f"Part {number} has SHA-256 {found} on disk; {part.sha256} was received.",
                "Upload the file again; if this repeats, the server's disk needs attention.",
            )
    declared = subject.assignment.declared_sha256
    parts = len(subject.assignment.parts)
    if not declared and parts:
        count = "its one part is" if parts == 1 else f"all {parts} parts are"
        return passed(f"SHA-256 {whole}; {count} on disk as received.")
    if not declared:
        return passed(f"SHA-256 {whole}; none was declared, so only the size vouches for it.")
    if declared != whole:
        raise CheckFailed(
            f"SHA-256 is {whole}, declared was {declared}: other bytes arrived than were meant.",
            "Compare with sha256sum of your file and upload it again.",
        )
    return passed(f"SHA-256 {whole}, as declared.")


def archive(subject: Subject) -> Outcome:
    if subject.assignment.recheck:
        return skipped("The published files are checked; there is no archive any more.")
    kind = archive_kind(subject.payload)
    subject.content.mkdir()
    if not kind:
        return _take_single_file(subject)
    if kind == "gz":
        raise CheckFailed(
            "This is a single gzip stream, not an archive.",
            "Upload the file uncompressed, or pack it as .zip or .tar.gz.",
        )
    unpacked = _unpack(subject, kind)
    subject.payload.unlink()
    top = _strip_top_folders(subject.content)
    stripped = f", top folder {top!r} removed" if top else ""
    return passed(
        f"{kind} with {unpacked.file_count} files, {amounts.size(unpacked.byte_count)} "
        f"unpacked{stripped}."
    )


def _take_single_file(subject: Subject) -> Outcome:
    _refuse_other_archives(subject.payload)
    name = source_file_name(subject.assignment.source_name)
    subject.payload.rename(subject.content / name)
    return passed(f"A single file, {name}; no archive.")


def _unpack(subject: Subject, kind: str) -> Unpacked:
    limits = subject.assignment.limits
    free = shutil.disk_usage(subject.work).free - _DISK_RESERVE_BYTES
    try:
        return unpack(
            subject.payload,
            kind,
            subject.content,
            ArchiveLimits(
                max_files=limits.max_files,
                max_bytes=max(0, min(limits.max_unpacked_bytes, free)),
                max_ratio=limits.max_ratio,
            ),
        )
    except ArchiveRefused as refused:
        raise CheckFailed(refused.detail, refused.fix) from None


def no_pickle(subject: Subject) -> Outcome:
    scanned = 0
    for path in files_below(subject.content):
        name = str(path.relative_to(subject.content))
        scanned += 1
        if kind := pickled(path, name):
            raise CheckFailed(
                f"{name} is {kind}: opening it can run any code its author chose.", EXPORT_HINT
            )
    return passed(f"{scanned} file{'s' if scanned != 1 else ''} scanned by content.")


def files_below(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def source_file_name(source_name: str) -> str:
    """The last component of the name the client gave, when it can be a file name here."""
    name = PurePosixPath(source_name.replace("\\", "/")).name
    try:
        parts = entry_parts(name)
    except EntryRefused:
        return "model.onnx"
    return parts[0] if len(parts) == 1 else "model.onnx"


def _hash(path: Path, parts: tuple[PartDigest, ...]) -> tuple[str, list[str]]:
    """SHA-256 of the whole and of every part, in one pass."""
    whole = hashlib.sha256()
    found: list[str] = []
    with path.open("rb") as file:
        for part in parts:
            part_hash = hashlib.sha256()
            left = part.size_bytes
            while left and (block := file.read(min(_BLOCK, left))):
                whole.update(block)
                part_hash.update(block)
                left -= len(block)
            found.append(part_hash.hexdigest())
        while block := file.read(_BLOCK):
            whole.update(block)
    return whole.hexdigest(), found


def _published_digests(subject: Subject) -> Outcome:
    expected = subject.assignment.published
    found = {
        str(path.relative_to(subject.content)): _hash(path, ())[0]
        for path in files_below(subject.content)
    }
    if found == expected:
        return passed(f"{len(found)} files have the SHA-256 recorded at publication.")
    wrong = sorted(set(expected.items()) ^ set(found.items()))
    names = ", ".join(dict.fromkeys(name for name, _ in wrong))
    raise CheckFailed(
        f"Changed, missing or added since publication: {names}.",
        "Published versions never change: upload the model again as a new version.",
    )


def _refuse_other_archives(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(8)
    for magic, kind in _OTHER_ARCHIVES.items():
        if head.startswith(magic):
            raise CheckFailed(
                f"{kind} archives are not accepted.", "Pack the files as .zip or .tar.gz."
            )


def _strip_top_folders(content: Path) -> str:
    """Archives often hold everything in one folder; its files move up. Returns what was removed."""
    removed: list[str] = []
    while True:
        entries = list(content.iterdir())
        if len(entries) != 1 or not entries[0].is_dir():
            return "/".join(removed)
        removed.append(entries[0].name)
        top = entries[0].rename(content.parent / "top")
        content.rmdir()
        top.rename(content)
