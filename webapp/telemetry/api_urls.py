"""API routes of telemetry, under /api/v1/."""

from django.urls import URLPattern

app_name = "telemetry_api"
urlpatterns: list[URLPattern] = []
