"""Paths under /api/v1/."""

from django.urls import path

from webapp.benchmarks import api

urlpatterns = [
    path("benchmarks", api.BenchmarkList.as_view()),
    path("benchmarks/<str:run_id>:cancel", api.BenchmarkCancel.as_view()),
    path("benchmarks/<str:run_id>", api.BenchmarkDetail.as_view()),
]
