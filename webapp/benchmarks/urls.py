"""Pages."""

from django.urls import path

from webapp.benchmarks import views

app_name = "benchmarks"
urlpatterns = [
    path("benchmarks/", views.benchmark_list, name="list"),
    path("benchmarks/start/", views.benchmark_start, name="start"),
    path("benchmarks/<str:run_id>/", views.benchmark_detail, name="detail"),
    path("benchmarks/<str:run_id>/cancel/", views.benchmark_cancel, name="cancel"),
]
