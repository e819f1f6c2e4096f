"""REST: the audit log."""

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action
from webapp.core.api import ApiView, call, filtered, page
from webapp.core.json_schema import text
from webapp.dashboard import schema
from webapp.dashboard.selectors import audit_filtered
from webapp.dashboard.serializers import audit_body

_FILTERS = {"action": "action", "actor": "actor_name", "at": "at"}


class AuditEvents(ApiView):
    read_action = Action.VIEW_AUDIT

    @call(
        "listAuditEvents",
        schema.AUDIT_EVENTS,
        paged=True,
        filters=_FILTERS,
        query={"target": text("Keeps what concerns this path, such as models/resnet50.")},
    )
    def get(self, request: Request) -> Response:
        """List who changed what, newest first."""
        rows = audit_filtered(
            target=request.query_params.get("target", ""), action="", actor_name=""
        )
        return page(filtered(rows, request, _FILTERS), request, audit_body)
