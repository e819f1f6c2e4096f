"""API routes of serving, under /api/v1/."""

from django.urls import path

from webapp.serving.api import deployments, runtimes, serving_configs

app_name = "serving_api"
urlpatterns = [
    path("runtimes", runtimes.RuntimeCollection.as_view(), name="runtimes"),
    path("runtimes/<str:name>:probe", runtimes.RuntimeProbe.as_view(), name="runtime-probe"),
    path(
        "runtimes/<str:name>:reconcile",
        runtimes.RuntimeReconcile.as_view(),
        name="runtime-reconcile",
    ),
    path(
        "runtimes/<str:name>/placements", deployments.RuntimePlacements.as_view(), name="placements"
    ),
    path("runtimes/<str:name>", runtimes.RuntimeItem.as_view(), name="runtime"),
    path(
        "models/<str:name>/placements",
        deployments.ModelPlacements.as_view(),
        name="model-placements",
    ),
    path(
        "models/<str:name>/versions/<int:number>:deploy",
        deployments.VersionDeploy.as_view(),
        name="version-deploy",
    ),
    path(
        "models/<str:name>/versions/<int:number>:undeploy",
        deployments.VersionUndeploy.as_view(),
        name="version-undeploy",
    ),
    path(
        "models/<str:name>/serving-config",
        serving_configs.ServingConfigItem.as_view(),
        name="serving-config",
    ),
]
