"""API routes of accounts, under /api/v1/."""

from django.urls import URLPattern

app_name = "accounts_api"
urlpatterns: list[URLPattern] = []
