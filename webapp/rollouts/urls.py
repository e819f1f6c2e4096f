"""Pages of rollouts."""

from django.urls import path

from webapp.rollouts import views
from webapp.rollouts.state_machine import Move

app_name = "rollouts"
urlpatterns = [
    path("rollouts/", views.list_page, name="list"),
    path("rollouts/<str:rollout_id>/", views.detail_page, name="detail"),
    *(
        path(
            f"rollouts/<str:rollout_id>/{move}",
            views.action_page,
            kwargs={"verb": move.value},
            name=move.value,
        )
        for move in Move
    ),
    path("models/<str:name>/rollouts/new/", views.start_page, name="start"),
    path("models/<str:name>/rollouts/new/plan", views.preview_fragment, name="plan"),
    path("models/<str:name>/rollouts/<str:rollout_id>/", views.detail_page, name="of-model"),
]
