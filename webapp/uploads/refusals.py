"""The ways an upload says no, in words."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from webapp.core.errors import Conflict, InvalidInput, TooLarge, Unavailable
from webapp.uploads.chunk_store import WrongDigest, WrongLength
from webapp.uploads.models import Upload


def not_open(upload: Upload) -> Conflict:
    return Conflict(
        f"Upload {upload.id} is over ({upload.state}).",
        reason="UPLOAD_NOT_OPEN",
        help_text="Start a new one with POST /uploads.",
        state=upload.state,
    )


def wrong_length(number: int, length: int, wrong: WrongLength) -> InvalidInput | TooLarge:
    if wrong.more:
        return TooLarge(
            f"Part {number} is {length:,} bytes; the body went on after that and was cut off.",
            reason="PART_TOO_LONG",
            help_text="Send exactly the bytes of this part: see part_size of the upload.",
        )
    return InvalidInput(
        f"Part {number} is {length:,} bytes; only {wrong.received:,} arrived.",
        reason="PART_TOO_SHORT",
        help_text="Send the whole part again.",
    )


def wrong_digest(number: int, announced: str, wrong: WrongDigest) -> InvalidInput:
    return InvalidInput(
        f"Part {number} has SHA-256 {wrong.found}, announced was {announced}.",
        reason="PART_DIGEST_MISMATCH",
        help_text="It was damaged on the way: send the part again. Nothing that was stored before "
        "is lost.",
    )


def parts_missing(upload: Upload, missing: list[int]) -> Conflict:
    listed = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
    return Conflict(
        f"{len(missing)} of {upload.part_count} parts are missing: {listed}.",
        reason="PARTS_MISSING",
        help_text="Send them with PUT /uploads/{id}/parts/{n}, then complete again.",
        missing_parts=missing[:1000],
    )


def samples_too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"Samples may have at most {limit // 1024**2} MiB.",
        reason="SAMPLES_TOO_LARGE",
        help_text="A few samples are enough; .npz is smaller than JSON.",
    )


@contextmanager
def bytes_at_hand(upload: Upload) -> Iterator[None]:
    """The folder may vanish under us (aborted, expired), and the disk may fill up."""
    try:
        yield
    except FileNotFoundError:
        upload.refresh_from_db()
        raise not_open(upload) from None
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Unavailable(
            "The disk is full; nothing of this part was kept.",
            reason="DISK_FULL",
            help_text="Free disk space on the server, then send the part again.",
        ) from None
