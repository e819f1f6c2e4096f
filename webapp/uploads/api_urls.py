"""API routes of uploads, under /api/v1/. Ids are slugs, so `{id}` does not swallow `{id}:complete`."""

from django.urls import URLPattern, path

from webapp.uploads import api

app_name = "uploads_api"
urlpatterns: list[URLPattern] = [
    path("uploads", api.UploadList.as_view(), name="upload-list"),
    path("uploads/<slug:upload_id>", api.UploadDetail.as_view(), name="upload"),
    path("uploads/<slug:upload_id>/parts/<int:number>", api.PartDetail.as_view(), name="part"),
    path("uploads/<slug:upload_id>/samples", api.SamplesDetail.as_view(), name="samples"),
]
