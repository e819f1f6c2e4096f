"""Errors of the control plane. Each carries a stable reason and the HTTP status it maps to.

ControlPlaneError
├── InvalidInput          400  the request cannot be meant; says which field and what would do
├── NotFound              404
├── PermissionRefused     403  says which role may
├── Conflict              409  the thing is in a state that does not allow this
├── PreconditionFailed    412  somebody changed it meanwhile
├── PreconditionRequired  428  the call needs If-Match
├── TooLarge              413
├── QuotaExceeded         429
└── Unavailable           503  something we depend on does not answer; try again
"""

from typing import Any


class ControlPlaneError(Exception):
    status = 500
    title = "Internal error"

    def __init__(
        self,
        detail: str,
        *,
        reason: str,
        help_text: str = "",
        errors: list[dict[str, Any]] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = reason
        self.help_text = help_text
        self.errors = errors or []
        self.extra = extra


class InvalidInput(ControlPlaneError):
    status = 400
    title = "Invalid input"


class NotFound(ControlPlaneError):
    status = 404
    title = "Not found"


class PermissionRefused(ControlPlaneError):
    status = 403
    title = "Not allowed"


class Conflict(ControlPlaneError):
    status = 409
    title = "Conflict"


class PreconditionFailed(ControlPlaneError):
    status = 412
    title = "Changed meanwhile"


class PreconditionRequired(ControlPlaneError):
    status = 428
    title = "If-Match needed"


class TooLarge(ControlPlaneError):
    status = 413
    title = "Too large"


class QuotaExceeded(ControlPlaneError):
    status = 429
    title = "Too many requests"


class Unavailable(ControlPlaneError):
    status = 503
    title = "Unavailable"
