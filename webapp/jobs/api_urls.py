"""API routes of jobs, under /api/v1/."""

from django.urls import URLPattern

app_name = "jobs_api"
urlpatterns: list[URLPattern] = []
