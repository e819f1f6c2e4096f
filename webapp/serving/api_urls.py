"""API routes of serving, under /api/v1/."""

from django.urls import URLPattern

app_name = "serving_api"
urlpatterns: list[URLPattern] = []
