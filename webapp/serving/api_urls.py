"""API routes of serving, under /api/v1/."""

from django.urls import path

from webapp.serving import api

app_name = "serving_api"
urlpatterns = [
    path("runtimes", api.RuntimeCollection.as_view(), name="runtimes"),
    path("runtimes/<str:name>:probe", api.RuntimeProbe.as_view(), name="runtime-probe"),
    path("runtimes/<str:name>:reconcile", api.RuntimeReconcile.as_view(), name="runtime-reconcile"),
    path("runtimes/<str:name>/placements", api.RuntimePlacements.as_view(), name="placements"),
    path("runtimes/<str:name>", api.RuntimeItem.as_view(), name="runtime"),
    path("models/<str:name>/placements", api.ModelPlacements.as_view(), name="model-placements"),
    path(
        "models/<str:name>/versions/<int:number>:deploy",
        api.VersionDeploy.as_view(),
        name="version-deploy",
    ),
    path(
        "models/<str:name>/versions/<int:number>:undeploy",
        api.VersionUndeploy.as_view(),
        name="version-undeploy",
    ),
    path(
        "models/<str:name>/serving-config", api.ServingConfigItem.as_view(), name="serving-config"
    ),
]
