"""States of a version, stages of a model, outcomes of a check."""

from django.db import models


class VersionState(models.TextChoices):
    QUARANTINED = "QUARANTINED"
    VALIDATING = "VALIDATING"
    READY = "READY"
    REJECTED = "REJECTED"
    ARCHIVED = "ARCHIVED"


ALLOWED_MOVES: dict[str, frozenset[str]] = {
    VersionState.QUARANTINED: frozenset({VersionState.VALIDATING}),
    VersionState.VALIDATING: frozenset(
        {VersionState.READY, VersionState.REJECTED, VersionState.QUARANTINED}
    ),
    VersionState.READY: frozenset({VersionState.ARCHIVED}),
    VersionState.ARCHIVED: frozenset({VersionState.READY}),
    VersionState.REJECTED: frozenset(),
}


class Stage(models.TextChoices):
    STAGING = "staging"
    PRODUCTION = "production"


class CheckStatus(models.TextChoices):
    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    SKIPPED = "skipped"


# The only states in which a version's bytes are in the repository.
PUBLISHED_STATES = frozenset({VersionState.READY, VersionState.ARCHIVED})
UNDECIDED_STATES = frozenset({VersionState.QUARANTINED, VersionState.VALIDATING})
