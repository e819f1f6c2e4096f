from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "webapp.jobs"
    label = "jobs"

    def ready(self) -> None:
        from webapp.core import snapshots
        from webapp.jobs.live import job_snapshot

        snapshots.register("job", job_snapshot)
