from django.apps import AppConfig


class ServingConfig(AppConfig):
    name = "webapp.serving"
    label = "serving"

    def ready(self) -> None:
        from webapp.catalog.hooks import guard_stage
        from webapp.core import snapshots
        from webapp.jobs.choices import JobKind
        from webapp.jobs.hooks import on_lost
        from webapp.serving import live, services
        from webapp.serving.staging import production_objection

        snapshots.register(live.RUNTIME_PREFIX, live.runtime_snapshot)
        snapshots.register(live.MODEL_PREFIX, live.model_snapshot)
        guard_stage(production_objection)
        on_lost(JobKind.DEPLOY_VERSION)(lambda job: services.deployment_lost(job=job))
        on_lost(JobKind.APPLY_SERVING_CONFIG)(lambda job: services.serving_config_lost(job=job))
