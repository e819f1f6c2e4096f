"""API routes of rollouts, under /api/v1/: each reachable alone and below its model."""

from django.urls import URLPattern, path

from webapp.rollouts import api
from webapp.rollouts.state_machine import Move

app_name = "rollouts_api"


def _routes(prefix: str, suffix: str) -> list[URLPattern]:
    one = f"{prefix}rollouts/<str:rollout_id>"
    return [
        *(
            path(f"{one}:{move}", api.RolloutAction.as_view(move=move), name=f"{move}{suffix}")
            for move in Move
        ),
        path(f"{one}/history", api.RolloutHistory.as_view(), name=f"history{suffix}"),
        path(f"{one}/analysis", api.RolloutAnalysis.as_view(), name=f"analysis{suffix}"),
        path(one, api.RolloutItem.as_view(), name=f"rollout{suffix}"),
    ]


urlpatterns = [
    path("rollouts", api.RolloutCollection.as_view(), name="rollouts"),
    path("models/<str:name>/rollouts", api.ModelRollouts.as_view(), name="rollouts-of-model"),
    *_routes("", ""),
    *_routes("models/<str:name>/", "-of-model"),
]
