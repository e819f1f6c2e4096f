"""Pages of serving."""

from django.urls import path
from django.views.generic import RedirectView

from webapp.serving import views

app_name = "serving"
urlpatterns = [
    path("runtimes/", views.runtimes_page, name="runtimes"),
    path("runtimes/<str:name>/", views.runtime_page, name="runtime"),
    path("runtimes/<str:name>/change/", views.runtime_change, name="runtime-change"),
    path("runtimes/<str:name>/forget/", views.runtime_forget, name="runtime-forget"),
    path("runtimes/<str:name>/probe/", views.runtime_probe, name="runtime-probe"),
    path("runtimes/<str:name>/reconcile/", views.runtime_reconcile, name="runtime-reconcile"),
    path("runtimes/<str:name>/deploy/", views.runtime_deploy, name="runtime-deploy"),
    path(
        "runtimes/<str:name>/undeploy/<str:model>/<int:number>/",
        views.runtime_undeploy,
        name="runtime-undeploy",
    ),
    path("models/<str:name>/serving/", views.config_page, name="config"),
    path("models/<str:name>/serving/preview/", views.config_preview, name="config-preview"),
    # Jobs link to the page of what they changed by its API path.
    path(
        "models/<str:name>/serving-config/",
        RedirectView.as_view(pattern_name="serving:config"),
    ),
]
