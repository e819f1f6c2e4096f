"""Pages."""

from django.urls import path

from webapp.dashboard import version_views, views

app_name = "dashboard"
_VERSION = "models/<str:name>/versions/<int:number>/"
urlpatterns = [
    path("", views.overview_page, name="overview"),
    path("models/", views.models_page, name="models"),
    path("models/<str:name>/", views.model_page, name="model"),
    path(_VERSION, version_views.version_page, name="version"),
    path(f"{_VERSION}try/", version_views.version_try, name="try"),
    path(f"{_VERSION}deploy/", version_views.version_deploy, name="deploy"),
    path(f"{_VERSION}undeploy/", version_views.version_undeploy, name="undeploy"),
    path(f"{_VERSION}archive/", version_views.version_shelve, name="archive"),
    path(f"{_VERSION}staging/", version_views.version_stage, name="staging"),
    path("audit/", views.audit_page, name="audit"),
]
