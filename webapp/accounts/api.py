"""REST: who am I, my tokens, people."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.permissions import Action, actor_of
from webapp.accounts.selectors import person_get, person_list, token_get, token_list
from webapp.accounts.serializers import me_body, person_body, token_body
from webapp.accounts.services import (
    password_reset,
    person_change,
    person_create,
    token_issue,
    token_revoke,
)
from webapp.core.api import ApiView, body_of, check_if_match, etag_response, filtered, page
from webapp.core.errors import InvalidInput


class Me(ApiView):
    """Who this token or session belongs to, and what they may do."""

    def get(self, request: Request) -> Response:
        return Response(me_body(actor_of(request)))


class TokenCollection(ApiView):
    """Your own API tokens. The token itself is in the answer to POST, once."""

    has_dry_run = False
    write_action = Action.MANAGE_OWN_TOKENS
    keeps_answers = False

    def get(self, request: Request) -> Response:
        return page(token_list(user=actor_of(request)), request, token_body)

    def post(self, request: Request) -> Response:
        user = actor_of(request)
        body = body_of(request)
        token, presented = token_issue(
            user=user, name=str(body.get("name", "")), actor=user, expires_at=_expiry(body)
        )
        return Response(token_body(token) | {"token": presented}, status=201)


class TokenItem(ApiView):
    has_dry_run = False
    write_action = Action.MANAGE_OWN_TOKENS

    def get(self, request: Request, token_id: int) -> Response:
        token = token_get(user=actor_of(request), token_id=token_id)
        return etag_response(request, token, token_body(token))

    def delete(self, request: Request, token_id: int) -> Response:
        user = actor_of(request)
        token = token_get(user=user, token_id=token_id)
        check_if_match(request, token)
        token_revoke(token=token, actor=user)
        return Response(status=204)


class TokenRevoke(ApiView):
    has_dry_run = False
    write_action = Action.MANAGE_OWN_TOKENS

    def post(self, request: Request, token_id: int) -> Response:
        user = actor_of(request)
        token = token_get(user=user, token_id=token_id)
        check_if_match(request, token)
        token_revoke(token=token, actor=user)
        return Response(token_body(token))


class PeopleCollection(ApiView):
    """Everybody with an account; admins only."""

    has_dry_run = False
    read_action = Action.MANAGE_PEOPLE
    write_action = Action.MANAGE_PEOPLE
    keeps_answers = False

    def get(self, request: Request) -> Response:
        people = filtered(person_list(), request, {"role": "role", "username": "username"})
        return page(people, request, person_body)

    def post(self, request: Request) -> Response:
        body = body_of(request)
        password = body.get("password")
        person, chosen = person_create(
            username=str(body.get("username", "")),
            role=str(body.get("role", "viewer")),
            actor=actor_of(request),
            password=str(password) if password else None,
        )
        shown = {} if password else {"password": chosen}
        return Response(person_body(person) | shown, status=201)


class PersonItem(ApiView):
    has_dry_run = False
    read_action = Action.MANAGE_PEOPLE
    write_action = Action.MANAGE_PEOPLE

    def get(self, request: Request, username: str) -> Response:
        person = person_get(username=username)
        return etag_response(request, _tagged(person), person_body(person))

    def patch(self, request: Request, username: str) -> Response:
        person = person_get(username=username)
        check_if_match(request, _tagged(person))
        body = body_of(request)
        if unknown := sorted(set(body) - {"role", "is_active"}):
            raise InvalidInput(
                f"Cannot change {', '.join(unknown)}.",
                reason="UNKNOWN_FIELD",
                help_text="Fields: role, is_active.",
            )
        is_active = body.get("is_active")
        if is_active is not None and not isinstance(is_active, bool):
            raise InvalidInput("is_active: expected true or false.", reason="BAD_FIELD")
        person = person_change(
            person=person, actor=actor_of(request), role=body.get("role"), is_active=is_active
        )
        return etag_response(request, _tagged(person), person_body(person))


class PersonPasswordReset(ApiView):
    has_dry_run = False
    write_action = Action.MANAGE_PEOPLE
    keeps_answers = False

    def post(self, request: Request, username: str) -> Response:
        person = person_get(username=username)
        given = body_of(request).get("password")
        chosen = password_reset(
            person=person, actor=actor_of(request), password=str(given) if given else None
        )
        return Response(person_body(person) | ({} if given else {"password": chosen}))


def _tagged(person: Any) -> dict[str, Any]:
    """What a change of a person is about; signing in must not change the tag."""
    return {"id": person.pk, "role": str(person.role), "is_active": person.is_active}


def _expiry(body: dict[str, Any]) -> datetime | None:
    days = body.get("expires_in_days")
    if days is not None:
        if isinstance(days, bool) or not isinstance(days, int) or not 0 < days <= 3650:
            raise InvalidInput(
                "expires_in_days: expected a whole number from 1 to 3650.", reason="BAD_EXPIRY"
            )
        return timezone.now() + timedelta(days=days)
    raw = body.get("expires_at")
    if raw is None:
        return None
    try:
        moment = parse_datetime(str(raw))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInput(
            "expires_at: expected a moment with zone, such as 2030-01-31T12:00:00Z.",
            reason="BAD_EXPIRY",
        )
    return moment
