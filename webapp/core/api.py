"""What every REST view stands on. Other apps import the API's vocabulary from here."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.core.body_check import body_check
from webapp.core.contract import JSON, Contract, IfMatch, call, contract_of
from webapp.core.errors import InvalidInput
from webapp.core.etags import check_if_match, etag_of, etag_response, if_match_tags, tagged
from webapp.core.idempotency import Replay, idempotency_begin, idempotency_settle
from webapp.core.models import IdempotencyRecord
from webapp.core.operations import operation_response
from webapp.core.paging import filtered, ordered, page, page_list
from webapp.core.problems import problem_handler

__all__ = [
    "ApiView",
    "IfMatch",
    "body_of",
    "call",
    "check_if_match",
    "etag_of",
    "etag_response",
    "filtered",
    "if_match_tags",
    "operation_response",
    "ordered",
    "page",
    "page_list",
    "problem_handler",
    "tagged",
    "tried",
    "validate_only",
]


_KINDS: dict[type, str] = {
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


class ApiView(APIView):
    """Problem documents, Idempotency-Key, actions named in class attributes, calls by contract.

    `read_action` and `write_action` are members of webapp.accounts.permissions.Action; views that
    take files set `parser_classes`. Every handler is decorated with `call`.
    """

    read_action: ClassVar[str] = "view"
    write_action: ClassVar[str] = ""
    # False where an answer holds a secret: it must not lie in the database for a day.
    keeps_answers: ClassVar[bool] = True

    _record: IdempotencyRecord | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = request.method or ""
        if method == "OPTIONS" or not hasattr(self, method.lower()):
            return
        contract = contract_of(self, method)
        _check_query(contract, request)
        _check_if_match(contract, request)
        if contract.body is not None and contract.media_type == JSON:
            body_of(request)
        # A dry run must not use up the key of the call that it tries.
        if method == "POST" and not validate_only(request):
            self._record = idempotency_begin(request, keep_answer=self.keeps_answers)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, Replay):
            return exc.response
        return super().handle_exception(exc)

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        if self._record is not None:
            idempotency_settle(self._record, final, keep_answer=self.keeps_answers)
            self._record = None
        return final


def body_of(request: Request) -> dict[str, Any]:
    """The body in the shape its contract gives it; an empty one is an empty object."""
    data = request.data
    if not isinstance(data, dict):
        raise InvalidInput(
            f"The body must be a JSON object, not {_KINDS[type(data)]}.", reason="MALFORMED_BODY"
        )
    contract = contract_of(request.parser_context["view"], request.method or "")
    if contract.body is not None:
        body_check(contract, data)
    return data


def validate_only(request: Request) -> bool:
    """True for `?validate_only=true`: say what would happen, change nothing."""
    raw = request.query_params.get("validate_only", "").lower()
    if raw not in {"", "true", "false", "1", "0"}:
        raise InvalidInput(
            f"validate_only: expected true or false, got {raw!r}.", reason="BAD_PARAMETER"
        )
    return raw in {"true", "1"}


def tried(change: Callable[[], dict[str, Any]]) -> Response:
    """A dry run of a call whose every effect is a row: done, shown and undone."""
    with transaction.atomic():
        body = change()
        transaction.set_rollback(True)
    return Response(body)


def _check_query(contract: Contract, request: Request) -> None:
    """A parameter nobody reads may be a typing error of one that matters."""
    writes = request.method not in {"GET", "HEAD"}
    if writes and validate_only(request) and contract.dry_run is None:
        raise InvalidInput(
            "This call has no dry run; nothing was changed.",
            reason="NO_DRY_RUN",
            help_text="Leave validate_only out to carry it out.",
        )
    known = contract.query_names() | ({"validate_only"} if writes else set())
    for name in request.query_params:
        if name not in known:
            raise InvalidInput(
                f"{name}: there is no such query parameter here.",
                reason="UNKNOWN_PARAMETER",
                help_text=f"Parameters: {', '.join(sorted(known))}." if known else "",
            )


def _check_if_match(contract: Contract, request: Request) -> None:
    """A condition that nobody looks at would promise a safety that is not there."""
    if if_match_tags(request) and contract.if_match is IfMatch.REFUSED:
        raise InvalidInput(
            "This call takes no If-Match: what it makes or changes has no ETag.",
            reason="IF_MATCH_NOT_TAKEN",
            help_text="Leave the header out.",
        )
