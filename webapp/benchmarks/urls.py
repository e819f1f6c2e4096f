"""Pages of benchmarks."""

from django.urls import URLPattern

app_name = "benchmarks"
urlpatterns: list[URLPattern] = []
