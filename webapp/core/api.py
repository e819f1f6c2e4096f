"""What every REST view stands on. Other apps import the API's vocabulary from here."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.core.errors import InvalidInput
from webapp.core.etags import check_if_match, etag_of, etag_response
from webapp.core.idempotency import Replay, idempotency_begin, idempotency_settle
from webapp.core.models import IdempotencyRecord
from webapp.core.operations import operation_response
from webapp.core.paging import filtered, ordered, page, page_list
from webapp.core.problems import problem_handler

__all__ = [
    "ApiView",
    "body_of",
    "check_if_match",
    "etag_of",
    "etag_response",
    "filtered",
    "operation_response",
    "ordered",
    "page",
    "page_list",
    "problem_handler",
    "validate_only",
]


class ApiView(APIView):
    """Problem documents, Idempotency-Key, and actions named in class attributes.

    `read_action` and `write_action` are members of webapp.accounts.permissions.Action; views that
    take files set `parser_classes`.
    """

    read_action: ClassVar[str] = "view"
    write_action: ClassVar[str] = ""
    # False where an answer holds a secret: it must not lie in the database for a day.
    keeps_answers: ClassVar[bool] = True

    has_dry_run: ClassVar[bool] = True  # False: `?validate_only=true` is refused, never ignored

    _record: IdempotencyRecord | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        dry = request.method not in {"GET", "HEAD", "OPTIONS"} and validate_only(request)
        if dry and not self.has_dry_run:
            raise InvalidInput(
                "This call has no dry run; nothing was changed.",
                reason="NO_DRY_RUN",
                help_text="Leave validate_only out to carry it out.",
            )
        # A dry run must not use up the key of the call that it tries.
        if request.method == "POST" and not dry and self.keeps_answers and hasattr(self, "post"):
            self._record = idempotency_begin(request)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, Replay):
            return exc.response
        return super().handle_exception(exc)

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        if self._record is not None:
            idempotency_settle(self._record, final)
            self._record = None
        return final


def body_of(request: Request) -> dict[str, Any]:
    """The JSON object of the body; an empty body is an empty object, anything else is refused."""
    data = request.data
    if isinstance(data, dict):
        return data
    raise InvalidInput(
        f"The body must be a JSON object, not {type(data).__name__}.", reason="MALFORMED_BODY"
    )


def validate_only(request: Request) -> bool:
    """True for `?validate_only=true`: say what would happen, change nothing."""
    raw = request.query_params.get("validate_only", "").lower()
    if raw not in {"", "true", "false", "1", "0"}:
        raise InvalidInput(
            f"validate_only: expected true or false, got {raw!r}.", reason="BAD_PARAMETER"
        )
    return raw in {"true", "1"}
