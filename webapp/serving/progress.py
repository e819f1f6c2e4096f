"""How long work tells where it stands, and learns that it should stop."""

from typing import Protocol

from webapp.jobs.claims import Claim
from webapp.jobs.services import job_heartbeat


class Progress(Protocol):
    def step(self, phase: str, fraction: float) -> None:
        """Raises when the work should end here."""


class Silent:
    """For work nobody watches."""

    def step(self, phase: str, fraction: float) -> None:
        pass


class JobProgress:
    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def step(self, phase: str, fraction: float) -> None:
        job_heartbeat(claim=self._claim, progress=fraction, phase=phase)
        self._claim.check()

    def check(self) -> None:
        self._claim.check()
