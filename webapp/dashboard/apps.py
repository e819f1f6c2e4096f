from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "webapp.dashboard"
    label = "dashboard"

    def ready(self) -> None:
        from webapp.core.verdict import register
        from webapp.dashboard.verdicts import fleet_verdict, requests_verdict, rollout_verdict

        register(fleet_verdict)
        register(requests_verdict)
        register(rollout_verdict)
