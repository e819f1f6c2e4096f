"""What every page needs: the rail, the strip on top, the request's id."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from webapp.core.navigation import sections
from webapp.core.request_id import request_id_of
from webapp.core.verdict import strip_of


def page_context(request: HttpRequest) -> dict[str, Any]:
    user: Any = getattr(request, "user", None)
    signed_in = user is not None and user.is_authenticated
    if not signed_in:
        return {"request_id": request_id_of(request)}
    is_admin = getattr(user, "role", "") == "admin"
    return {
        "request_id": request_id_of(request),
        "rail": SimpleLazyObject(lambda: sections(path=request.path, is_admin=is_admin)),
        "strip": SimpleLazyObject(lambda: strip_of(user)),
    }
