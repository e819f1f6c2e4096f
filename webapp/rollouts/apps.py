from django.apps import AppConfig


class RolloutsConfig(AppConfig):
    name = "webapp.rollouts"
    label = "rollouts"

    def ready(self) -> None:
        from webapp.core import snapshots, verdict
        from webapp.rollouts.live import rollout_topic, rollouts_topic
        from webapp.rollouts.strip import failed_rollbacks_verdict
        from webapp.rollouts.undeploying import removal_objection
        from webapp.serving.hooks import guard_removal

        snapshots.register("rollout", rollout_topic)
        snapshots.register("rollouts", rollouts_topic)
        verdict.register(failed_rollbacks_verdict)
        guard_removal(removal_objection)
