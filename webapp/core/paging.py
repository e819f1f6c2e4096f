"""Lists for the API: keyset cursors, a small filter grammar, ordering by named fields only."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django.core.exceptions import FieldError, ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model, Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.core.errors import InvalidInput

DEFAULT_SIZE = 50
MAX_SIZE = 500
_TERM = re.compile(r"\s*([a-z_]+)\s*(!=|>=|<=|=)\s*(?:\"([^\"]*)\"|(\S+))\s*\Z")
_LOOKUP = {"=": "", "!=": "", ">=": "__gte", "<=": "__lte"}

Row = TypeVar("Row", bound=Model)


def page(queryset: QuerySet[Row], request: Request, render: Callable[[Row], Any]) -> Response:
    """`{"items": [...], "next_page_token": "..."}`; the token is "" on the last page.

    Rows come in the queryset's own order, with the primary key as the last word, so that a page
    neither repeats nor loses a row when others are added meanwhile.
    """
    size = _page_size(request)
    names = _ordering(queryset)
    rows = queryset.order_by(*names)
    if token := request.query_params.get("page_token"):
        rows = rows.filter(_after(names, _decode(token, len(names))))
    try:
        found = list(rows[: size + 1])
    except (ValueError, ValidationError):
        raise _bad_token() from None
    more = len(found) > size
    found = found[:size]
    return Response(
        {
            "items": [render(row) for row in found],
            "next_page_token": _encode(found[-1], names) if more else "",
        }
    )


def page_list(rows: Sequence[Any], request: Request, render: Callable[[Any], Any]) -> Response:
    """The same shape for a list already in memory; the token is an offset."""
    size = _page_size(request)
    token = request.query_params.get("page_token")
    start = 0
    if token:
        (start,) = _decode(token, 1)
        if not isinstance(start, int) or start < 0:
            raise _bad_token()
    shown = rows[start : start + size]
    following = _pack([start + size]) if start + size < len(rows) else ""
    return Response({"items": [render(row) for row in shown], "next_page_token": following})


def filtered(queryset: QuerySet[Row], request: Request, fields: Mapping[str, str]) -> QuerySet[Row]:
    """Applies `?filter=state=RUNNING AND model=resnet50` and the short form `?state=RUNNING`.

    `fields` maps the names callers may use to lookups; any other name is refused.
    """
    for name, lookup in fields.items():
        if (value := request.query_params.get(name)) is not None:
            queryset = _where(queryset, name, "=", lookup, value)
    for term in filter(None, re.split(r"\s+AND\s+", request.query_params.get("filter", ""))):
        match = _TERM.match(term)
        if match is None:
            raise InvalidInput(
                f"filter: cannot read {term!r}.",
                reason="BAD_FILTER",
                help_text='Write field=value, joined by " AND "; also !=, >= and <=.',
            )
        name, operator, quoted, bare = match.groups()
        if name not in fields:
            raise InvalidInput(
                f"filter: there is no field {name!r} to filter by.",
                reason="UNKNOWN_FIELD",
                help_text=f"Fields: {', '.join(sorted(fields))}.",
            )
        queryset = _where(queryset, name, operator, fields[name], quoted if bare is None else bare)
    return queryset


def ordered(queryset: QuerySet[Row], request: Request, fields: Mapping[str, str]) -> QuerySet[Row]:
    """Applies `?order_by=name` or `?order_by=-created_at,name`; only the fields named here."""
    asked = request.query_params.get("order_by")
    if not asked:
        return queryset
    names = []
    for word in asked.split(","):
        name = word.strip().removeprefix("-")
        if name not in fields:
            raise InvalidInput(
                f"order_by: there is no field {name!r} to order by.",
                reason="UNKNOWN_FIELD",
                help_text=f"Fields: {', '.join(sorted(fields))}.",
            )
        names.append(("-" if word.strip().startswith("-") else "") + fields[name])
    return queryset.order_by(*names)


def _page_size(request: Request) -> int:
    raw = request.query_params.get("page_size")
    if not raw:
        return DEFAULT_SIZE
    if not raw.isascii() or not raw.isdigit() or int(raw) == 0:
        raise InvalidInput(
            f"page_size: expected a whole number from 1 to {MAX_SIZE}, got {raw!r}.",
            reason="BAD_PAGE_SIZE",
        )
    return min(int(raw), MAX_SIZE)


def _where(
    queryset: QuerySet[Row], name: str, operator: str, lookup: str, value: str
) -> QuerySet[Row]:
    condition = Q(**{lookup + _LOOKUP[operator]: value})
    try:
        return queryset.exclude(condition) if operator == "!=" else queryset.filter(condition)
    except (ValueError, ValidationError, FieldError):
        raise InvalidInput(
            f"{name}: cannot be compared with {value!r}.", reason="BAD_FILTER"
        ) from None


def _ordering(queryset: QuerySet[Any]) -> list[str]:
    names = [str(name) for name in (queryset.query.order_by or queryset.model._meta.ordering or ())]
    if not any(name.lstrip("-") in {"pk", "id"} for name in names):
        names.append("-pk" if names and names[0].startswith("-") else "pk")
    return names


def _after(names: Sequence[str], values: Sequence[Any]) -> Q:
    """Rows that come after `values` in the order of `names`."""
    result = Q()
    equal: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        field = name.lstrip("-")
        beyond = f"{field}__lt" if name.startswith("-") else f"{field}__gt"
        result |= Q(**equal, **{beyond: value})
        equal[field] = value
    return result


def _encode(row: Model, names: Sequence[str]) -> str:
    values = []
    for name in names:
        value: Any = row
        for part in name.lstrip("-").split("__"):
            value = getattr(value, part)
        values.append(value)
    return _pack(values)


def _pack(values: list[Any]) -> str:
    text = json.dumps(values, cls=_ExactEncoder)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


class _ExactEncoder(DjangoJSONEncoder):
    """Django's cuts moments to milliseconds, and a cursor must not step back."""

    def default(self, o: Any) -> Any:
        return o.isoformat() if hasattr(o, "isoformat") else super().default(o)


def _decode(token: str, count: int) -> list[Any]:
    try:
        padded = token + "=" * (-len(token) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _bad_token() from None
    if not isinstance(values, list) or len(values) != count:
        raise _bad_token()
    return values


def _bad_token() -> InvalidInput:
    return InvalidInput(
        "page_token: this is not a token from this list.",
        reason="BAD_PAGE_TOKEN",
        help_text="Use next_page_token as it came, with the same filter and order.",
    )
