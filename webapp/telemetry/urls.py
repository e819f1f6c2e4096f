"""Pages of telemetry."""

from django.urls import URLPattern

app_name = "telemetry"
urlpatterns: list[URLPattern] = []
