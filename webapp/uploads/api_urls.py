"""API routes of uploads, under /api/v1/."""

from django.urls import URLPattern

app_name = "uploads_api"
urlpatterns: list[URLPattern] = []
