"""What a worker holds while it carries out a job, and how it learns that it should stop."""

from dataclasses import dataclass, field

from webapp.jobs.models import Job


class JobCancelled(Exception):
    """Somebody asked for the job to end. Raised by `Claim.check`; ends the job CANCELLED."""


class LeaseLost(Exception):
    """Another attempt owns the job now. Whatever this one still holds in its hands is void."""


@dataclass
class Claim:
    """One attempt at a job. `token` proves to every write that the lease is still ours."""

    job: Job
    token: int
    worker: str
    cancelled: bool = field(default=False)  # set by a heartbeat; end soon and tidily
    lost: bool = field(default=False)  # set by a heartbeat or a refused write; stop at once
    settled: bool = field(default=False)  # the job has its end

    def check(self) -> None:
        """Call between steps of long work."""
        if self.lost:
            raise LeaseLost(self.job.id)
        if self.cancelled:
            raise JobCancelled(self.job.id)
