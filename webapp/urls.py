"""Pages, the REST API under /api/v1/, and the health check: every app's routes in one place."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from webapp.core import views as core_views

_PAGES = (
    "dashboard",
    "accounts",
    "jobs",
    "uploads",
    "catalog",
    "serving",
    "telemetry",
    "rollouts",
    "benchmarks",
)
_API = (
    "dashboard",
    "accounts",
    "jobs",
    "uploads",
    "catalog",
    "serving",
    "telemetry",
    "rollouts",
    "benchmarks",
)

urlpatterns = [
    path("healthz", core_views.healthz, name="healthz"),
    path("favicon.ico", core_views.favicon, name="favicon"),
    path("strip/", core_views.strip, name="strip"),
    path("api/schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("api/docs/", core_views.api_docs, name="api-docs"),
    *(path("api/v1/", include(f"webapp.{app}.api_urls")) for app in _API),
    *(path("", include(f"webapp.{app}.urls")) for app in _PAGES),
]

handler400 = "webapp.core.views.bad_request"
handler403 = "webapp.core.views.permission_denied"
handler404 = "webapp.core.views.page_not_found"
handler500 = "webapp.core.views.server_error"
