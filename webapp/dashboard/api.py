"""REST: the audit log."""

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action
from webapp.core.api import ApiView, filtered, page
from webapp.dashboard.selectors import audit_filtered
from webapp.dashboard.serializers import audit_body

_FILTERS = {"action": "action", "actor": "actor_name", "at": "at"}


class AuditEvents(ApiView):
    read_action = Action.VIEW_AUDIT

    def get(self, request: Request) -> Response:
        rows = audit_filtered(
            target=request.query_params.get("target", ""), action="", actor_name=""
        )
        return page(filtered(rows, request, _FILTERS), request, audit_body)
