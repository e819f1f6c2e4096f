"""Pages of dashboard."""

from django.urls import URLPattern

app_name = "dashboard"
urlpatterns: list[URLPattern] = []
