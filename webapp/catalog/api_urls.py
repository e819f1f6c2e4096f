"""API routes of catalog, under /api/v1/."""

from django.urls import URLPattern

app_name = "catalog_api"
urlpatterns: list[URLPattern] = []
