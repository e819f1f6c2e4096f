"""How much may be uploaded: by one person, at once, and before the disk is full."""

from django.conf import settings

from webapp.accounts.models import User
from webapp.core.errors import InvalidInput, QuotaExceeded, TooLarge
from webapp.core.templatetags.units import bytes as in_words
from webapp.uploads import chunk_store
from webapp.uploads.choices import UploadState
from webapp.uploads.models import Upload
from webapp.uploads.selectors import reserved_bytes

LEAST_PART_BYTES = 256 * 1024
MOST_PART_BYTES = 64 * 1024 * 1024
_USUAL_PART_BYTES = 8 * 1024 * 1024
_MIB = 1024 * 1024
_MOST_PARTS = 4000
_DISK_RESERVE_BYTES = 1024**3  # the database, logs and checks need room too


def check_size(size_bytes: int) -> None:
    if size_bytes <= 0:
        raise InvalidInput(
            "The file is empty.",
            reason="EMPTY_FILE",
            help_text="Choose the exported model file.",
            errors=[{"pointer": "/size_bytes", "detail": "must be at least 1"}],
        )
    if size_bytes > settings.MAX_UPLOAD_BYTES:
        raise TooLarge(
            f"{in_words(size_bytes)} is over the limit of {in_words(settings.MAX_UPLOAD_BYTES)} "
            "for one upload.",
            reason="UPLOAD_TOO_LARGE",
            help_text="Upload a smaller model (FP16 weights halve it), or ask the administrator "
            "to raise SWITCHYARD_MAX_UPLOAD_BYTES.",
            max_bytes=settings.MAX_UPLOAD_BYTES,
        )


def check_open_uploads(owner: User) -> None:
    count = Upload.objects.filter(owner=owner, state=UploadState.UPLOADING).count()
    if count >= settings.MAX_OPEN_UPLOADS:
        raise QuotaExceeded(
            f"You have {count} unfinished uploads, the most that is allowed.",
            reason="TOO_MANY_OPEN_UPLOADS",
            help_text="Finish or discard some: GET /uploads lists them, DELETE /uploads/{id} "
            "discards one.",
            retry_after_seconds=60,
        )


def check_room(size_bytes: int) -> None:
    """Counts what other open uploads have announced, so that all of them can finish."""
    free = chunk_store.free_bytes() - reserved_bytes() - _DISK_RESERVE_BYTES
    if size_bytes > free:
        raise TooLarge(
            f"{in_words(size_bytes)} does not fit: {in_words(max(0, free))} are free beside "
            "what other uploads have reserved.",
            reason="DISK_FULL",
            help_text="Discard unfinished uploads, delete models no longer used, or enlarge the disk.",
        )


def choose_part_size(size_bytes: int, wanted: int | None) -> int:
    """The caller's wish within bounds, else 8 MiB, more for files that would have too many parts."""
    if wanted is None:
        needed = -(-size_bytes // (_MOST_PARTS * _MIB)) * _MIB
        return min(MOST_PART_BYTES, max(_USUAL_PART_BYTES, needed))
    if not LEAST_PART_BYTES <= wanted <= MOST_PART_BYTES or size_bytes > wanted * _MOST_PARTS:
        raise InvalidInput(
            f"part_size: {wanted} does not do for {size_bytes} bytes.",
            reason="BAD_PART_SIZE",
            help_text=f"Use {LEAST_PART_BYTES} to {MOST_PART_BYTES} bytes and at most "
            f"{_MOST_PARTS} parts, or leave it out.",
        )
    return wanted
