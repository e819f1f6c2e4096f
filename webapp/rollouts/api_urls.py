"""API routes of rollouts, under /api/v1/."""

from django.urls import URLPattern

app_name = "rollouts_api"
urlpatterns: list[URLPattern] = []
