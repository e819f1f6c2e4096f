"""API routes of the catalogue, under /api/v1/."""

from django.urls import URLPattern, path

from webapp.catalog.api import models, pointers, uploads, versions

app_name = "catalog_api"
_VERSION = "models/<str:name>/versions/<int:number>"
urlpatterns: list[URLPattern] = [
    path("uploads/<slug:upload_id>:complete", uploads.UploadComplete.as_view(), name="complete"),
    path("models", models.ModelList.as_view(), name="model-list"),
    path("models/<str:name>", models.ModelDetail.as_view(), name="model"),
    path("models/<str:name>/versions", versions.VersionList.as_view(), name="version-list"),
    path(_VERSION, versions.VersionDetail.as_view(), name="version"),
    path(f"{_VERSION}:archive", versions.VersionArchive.as_view(), name="archive"),
    path(f"{_VERSION}:restore", versions.VersionRestore.as_view(), name="restore"),
    path(f"{_VERSION}:validate", versions.VersionValidate.as_view(), name="validate"),
    path("models/<str:name>/aliases", pointers.AliasList.as_view(), name="alias-list"),
    path("models/<str:name>/aliases/<str:alias>", pointers.AliasDetail.as_view(), name="alias"),
    path("models/<str:name>/stages", pointers.StageList.as_view(), name="stage-list"),
    path("models/<str:name>/stages/<str:stage>:set", pointers.StageSet.as_view(), name="stage-set"),
    path("models/<str:name>/promotions", pointers.PromotionList.as_view(), name="promotion-list"),
]
