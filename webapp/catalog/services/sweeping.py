"""Removes what crashes left behind: quarantine folders, staging, folders and bytes of rejected versions.

Each step looks at the disk first and asks the database then, so that nothing that came into being
in between is taken for a leftover.
"""

from webapp.catalog import quarantine, repository_writer
from webapp.catalog.choices import UNDECIDED_STATES, VersionState
from webapp.catalog.models import ModelVersion
from webapp.jobs.choices import JobKind
from webapp.jobs.selectors import jobs_open
from webapp.uploads.choices import UploadState
from webapp.uploads.models import Upload
from webapp.uploads.selectors import folders_on_disk
from webapp.uploads.services import bytes_remove

_STAGING_SECONDS = 3600.0


def catalog_sweep() -> int:
    """Returns how many leftovers went."""
    return (
        _sweep_quarantine()
        + _sweep_uploads()
        + _sweep_repository()
        + repository_writer.staging_sweep(older_than_seconds=_STAGING_SECONDS)
    )


def _sweep_quarantine() -> int:
    found = quarantine.owners()
    checked = jobs_open().filter(kind=JobKind.INSPECT_VERSION).values_list("subject_id", flat=True)
    idle = found - {int(subject) for subject in checked}
    for version_id in idle:
        quarantine.clear(version_id=version_id)
    return len(idle)


def _sweep_uploads() -> int:
    found = folders_on_disk()
    undecided = ModelVersion.objects.filter(state__in=UNDECIDED_STATES, upload__isnull=False)
    # One statement, so that an upload and the version made of it are seen together or not at all.
    done = Upload.objects.filter(state=UploadState.COMPLETED, id__in=found).exclude(
        id__in=undecided.values("upload_id")
    )
    removed = list(done.values_list("id", flat=True))
    for upload_id in removed:
        bytes_remove(upload_id=upload_id)
    return len(removed)


def _sweep_repository() -> int:
    """A folder of a rejected version: its publication was renamed in and then not committed."""
    rejected = ModelVersion.objects.filter(state=VersionState.REJECTED).select_related("model")
    return sum(
        repository_writer.version_discard_published(
            model_name=version.model.name, number=version.number
        )
        for version in rejected
    )
