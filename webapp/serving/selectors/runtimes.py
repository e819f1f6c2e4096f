"""Reads of runtimes, and the connections to them."""

from django.conf import settings
from django.db.models import QuerySet

from webapp.core.errors import NotFound, Unavailable
from webapp.runtime_client.connection import RuntimeConnection
from webapp.runtime_client.connections import connect
from webapp.runtime_client.types import TRAFFIC
from webapp.serving.models import Runtime


def runtime_list() -> QuerySet[Runtime]:
    return Runtime.objects.all()


def runtime_get(*, name: str) -> Runtime:
    runtime = Runtime.objects.filter(name=name).first()
    if runtime is None:
        known = ", ".join(Runtime.objects.values_list("name", flat=True)[:20])
        raise NotFound(
            f"There is no runtime {name!r}.",
            reason="RUNTIME_NOT_FOUND",
            help_text=f"Known runtimes: {known or 'none'}.",
        )
    return runtime


def embedded_runtime() -> Runtime:
    runtime = Runtime.objects.filter(embedded=True).first()
    if runtime is None:
        raise Unavailable(
            "The embedded runtime is not registered yet.",
            reason="NO_EMBEDDED_RUNTIME",
            help_text="It registers itself when the web process starts; or name another runtime.",
        )
    return runtime


def client_for(*, runtime: Runtime) -> RuntimeConnection:
    """Shared by the whole process and between threads; never close it."""
    return connect(
        http_address=runtime.http_address,
        grpc_address=runtime.grpc_address,
        metrics_address=runtime.metrics_address,
    )


def splits_traffic(*, runtime: Runtime) -> bool:
    return TRAFFIC in runtime.extensions


def embedded_addresses() -> dict[str, str]:
    host = settings.RUNTIME_HOST
    return {
        "http_address": f"{host}:{settings.RUNTIME_HTTP_PORT}",
        "grpc_address": f"{host}:{settings.RUNTIME_GRPC_PORT}",
        "metrics_address": f"{host}:{settings.RUNTIME_METRICS_PORT}",
    }
