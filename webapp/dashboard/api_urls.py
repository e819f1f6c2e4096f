"""Paths under /api/v1/."""

from django.urls import path

from webapp.dashboard import api

urlpatterns = [path("audit-events", api.AuditEvents.as_view())]
