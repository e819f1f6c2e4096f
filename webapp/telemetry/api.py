"""REST: a model's shares, series for charts, event marks."""

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.catalog.selectors import model_get
from webapp.core.api import ApiView, call, filtered, page
from webapp.core.errors import InvalidInput
from webapp.core.json_schema import text, whole
from webapp.serving.selectors import traffic_state
from webapp.telemetry import schema
from webapp.telemetry.history import Selection
from webapp.telemetry.models import EventMark
from webapp.telemetry.ranges import DEFAULT_RANGE
from webapp.telemetry.selectors import observed_shares, serving_series
from webapp.telemetry.serializers import mark_body, traffic_body

_EVENT_FILTERS = {
    "kind": "kind",
    "model": "model_name",
    "runtime": "runtime_name",
    "at": "at",
}


class ModelTraffic(ApiView):
    @call("getTraffic", schema.TRAFFIC)
    def get(self, request: Request, name: str) -> Response:
        """Read the shares of a model's versions: configured, applied on the runtimes, observed."""
        model = model_get(name=name)
        return Response(traffic_body(traffic_state(model=model), observed_shares(model=name)))


class SeriesCollection(ApiView):
    @call(
        "getSeries",
        schema.SERIES,
        query={
            "metric": schema.METRIC | {"default": "requests_per_second"},
            "range": schema.RANGE | {"default": DEFAULT_RANGE},
            "model": text("Keeps one model."),
            "version": whole("Keeps one version."),
            "runtime": text("Keeps one runtime."),
        },
    )
    def get(self, request: Request) -> Response:
        """Read one metric over a range, a series per version; null where nothing is known."""
        asked = request.query_params
        selection = Selection(
            model=asked.get("model", ""),
            version=_version(asked.get("version", "")),
            runtime=asked.get("runtime", ""),
        )
        series = serving_series(
            metric=asked.get("metric", "requests_per_second"),
            range_name=asked.get("range", ""),
            selection=selection,
        )
        return Response(series)


class EventCollection(ApiView):
    @call("listEvents", schema.MARKS, paged=True, filters=_EVENT_FILTERS)
    def get(self, request: Request) -> Response:
        """List event marks, newest first."""
        rows = filtered(EventMark.objects.order_by("-id"), request, _EVENT_FILTERS)
        return page(rows, request, mark_body)


def _version(raw: str) -> int | None:
    if not raw:
        return None
    if not (raw.isascii() and raw.isdigit()):
        raise InvalidInput(
            f"version: expected a whole number, got {raw!r}.", reason="BAD_PARAMETER"
        )
    return int(raw)
