"""Pages of catalog."""

from django.urls import URLPattern, path

from webapp.catalog import views

app_name = "catalog"
urlpatterns: list[URLPattern] = [
    path("upload/", views.upload_page, name="upload"),
    path("upload/<slug:upload_id>/finish/", views.upload_finish, name="finish"),
    path("upload/<slug:upload_id>/discard/", views.upload_discard, name="discard"),
    path("models/<str:name>/versions/<int:number>/checks/", views.version_checks, name="checks"),
]
