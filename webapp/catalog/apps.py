from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "webapp.catalog"
    label = "catalog"

    def ready(self) -> None:
        from webapp.catalog.live import version_snapshot
        from webapp.catalog.services import version_lost
        from webapp.core.snapshots import register
        from webapp.jobs.choices import JobKind
        from webapp.jobs.hooks import on_lost

        on_lost(JobKind.INSPECT_VERSION)(lambda job: version_lost(job=job))
        register("version", version_snapshot)
