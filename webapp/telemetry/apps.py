from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "webapp.telemetry"
    label = "telemetry"

    def ready(self) -> None:
        from webapp.core import snapshots
        from webapp.serving import hooks
        from webapp.telemetry.services import serving_event_mark
        from webapp.telemetry.snapshots import fleet_snapshot, model_snapshot, runtime_snapshot

        snapshots.register("fleet", fleet_snapshot)
        snapshots.register("runtime", runtime_snapshot)
        snapshots.register("model", model_snapshot)
        hooks.on_event(serving_event_mark)
