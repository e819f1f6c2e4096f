"""Writes checks down while they run, so that a page fills in live; at most a few times a second."""

import time

from django.db import transaction
from django.utils import timezone

from webapp.catalog.choices import VersionState
from webapp.catalog.inspection.names import CHECK_NAMES, TITLES
from webapp.catalog.live import version_tell
from webapp.catalog.models import ModelVersion
from webapp.catalog.sandbox import Findings
from webapp.jobs.claims import Claim
from webapp.jobs.services import job_heartbeat

_INTERVAL_NS = 200_000_000


class Progress:
    def __init__(self, *, claim: Claim, version: ModelVersion, recheck: bool) -> None:
        self._claim = claim
        self._version = version
        self._recheck = recheck
        self._next_ns = 0
        self._written: tuple[int, str] = (0, "")

    def update(self, findings: Findings) -> None:
        now_ns = time.monotonic_ns()
        news = (len(findings.checks), findings.running)
        if now_ns < self._next_ns or news == self._written or not findings.running:
            return
        self._next_ns, self._written = now_ns + _INTERVAL_NS, news
        done = len(findings.checks) / len(CHECK_NAMES)
        if not job_heartbeat(
            claim=self._claim, progress=done, phase=f"checking: {TITLES[findings.running]}"
        ):
            return
        if not self._recheck:  # a published version shows its last verdict until the new one
            self._write(findings)

    def _write(self, findings: Findings) -> None:
        with transaction.atomic():
            ModelVersion.objects.filter(pk=self._version.pk, state=VersionState.VALIDATING).update(
                checks=findings.checks,
                metadata={"checking": findings.running},
                updated_at=timezone.now(),
            )
            self._version.refresh_from_db()
            version_tell(version=self._version)
