"""Pages of telemetry."""

from django.urls import path

from webapp.telemetry import views

app_name = "telemetry"
urlpatterns = [
    path("live/", views.live_page, name="live"),
    path("live/figures/", views.figures_json, name="figures"),
]
