"""API routes of telemetry, under /api/v1/."""

from django.urls import path

from webapp.telemetry import api

app_name = "telemetry_api"
urlpatterns = [
    path("models/<str:name>/traffic", api.ModelTraffic.as_view(), name="traffic"),
    path("telemetry/series", api.SeriesCollection.as_view(), name="series"),
    path("telemetry/events", api.EventCollection.as_view(), name="events"),
]
