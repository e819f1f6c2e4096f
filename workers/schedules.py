"""One line per periodic task. A turn that was not taken before the next is due is dropped."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Every:
    seconds: float
    task: str
    expires: float  # less than `seconds`: a stalled worker wakes to one turn, not to a thousand
    queue: str = "default"

    def entry(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "schedule": self.seconds,
            "options": {"expires": self.expires, "queue": self.queue},
        }


EVERY: list[Every] = [
    # The control queue has a worker of its own: no long job may delay a rollout or a share.
    Every(seconds=5, task="jobs_reap", expires=4, queue="control"),
    Every(seconds=1, task="rollouts_tick", expires=0.9, queue="control"),
    Every(seconds=5, task="probe_runtimes", expires=4),
    Every(seconds=3600, task="leftovers_prune", expires=3000),
    Every(seconds=300, task="uploads_sweep", expires=240),
    Every(seconds=600, task="catalog_sweep", expires=500),
    Every(seconds=3600, task="events_prune", expires=3000),
]
