"""REST: who am I, my tokens, people."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts import schema
from webapp.accounts.choices import Role
from webapp.accounts.models import ApiToken, User
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
from webapp.core.api import (
    ApiView,
    IfMatch,
    body_of,
    call,
    check_if_match,
    filtered,
    page,
    tagged,
)
from webapp.core.errors import InvalidInput
from webapp.core.json_schema import NO_FIELDS

_PEOPLE_FILTERS = {"role": "role", "username": "username"}


class Me(ApiView):
    @call("getMe", schema.ME)
    def get(self, request: Request) -> Response:
        """Read who this token or session belongs to, and what they may do."""
        return Response(me_body(actor_of(request)))


class TokenCollection(ApiView):
    write_action = Action.MANAGE_OWN_TOKENS
    keeps_answers = False

    @call("listTokens", schema.TOKENS, paged=True)
    def get(self, request: Request) -> Response:
        """List your own tokens."""
        return page(token_list(user=actor_of(request)), request, token_body)

    @call(
        "createToken",
        schema.TOKEN_ISSUED,
        status=201,
        body=schema.TOKEN_NEW,
        example={"name": "nightly deploy", "expires_in_days": 90},
    )
    def post(self, request: Request) -> Response:
        """Issue a token for yourself.

        The token itself is in this answer, once; it is not kept for the Idempotency-Key either.
        """
        user = actor_of(request)
        body = body_of(request)
        token, presented = token_issue(
            user=user, name=body["name"], actor=user, expires_at=_expiry(body)
        )
        return Response(
            token_body(token) | {"token": presented},
            status=201,
            headers={"Location": f"/api/v1/tokens/{token.pk}"},
        )


class TokenItem(ApiView):
    write_action = Action.MANAGE_OWN_TOKENS

    @call("getToken", schema.TOKEN, tagged=True)
    def get(self, request: Request, token_id: int) -> Response:
        """Read one of your tokens; not the token itself."""
        token = token_get(user=actor_of(request), token_id=token_id)
        return tagged(_token_tag(token), token_body(token))

    @call("deleteToken", None, status=204, if_match=IfMatch.NEEDED)
    def delete(self, request: Request, token_id: int) -> Response:
        """Revoke one of your tokens."""
        user = actor_of(request)
        token = token_get(user=user, token_id=token_id)
        check_if_match(request, _token_tag(token))
        token_revoke(token=token, actor=user)
        return Response(status=204)


class TokenRevoke(ApiView):
    write_action = Action.MANAGE_OWN_TOKENS

    @call("revokeToken", schema.TOKEN, body=NO_FIELDS, if_match=IfMatch.TAKEN)
    def post(self, request: Request, token_id: int) -> Response:
        """Revoke one of your tokens, and see it."""
        user = actor_of(request)
        token = token_get(user=user, token_id=token_id)
        check_if_match(request, _token_tag(token))
        token_revoke(token=token, actor=user)
        return Response(token_body(token))


class PeopleCollection(ApiView):
    read_action = Action.MANAGE_PEOPLE
    write_action = Action.MANAGE_PEOPLE
    keeps_answers = False

    @call(
        "listPeople",
        schema.PEOPLE,
        paged=True,
        filters=_PEOPLE_FILTERS,
        query={"role": schema.ROLE},
    )
    def get(self, request: Request) -> Response:
        """List everybody with an account; for admins."""
        return page(filtered(person_list(), request, _PEOPLE_FILTERS), request, person_body)

    @call(
        "createPerson",
        schema.PERSON_WITH_PASSWORD,
        status=201,
        body=schema.PERSON_NEW,
        example={"username": "olga", "role": "operator"},
    )
    def post(self, request: Request) -> Response:
        """Add somebody; for admins.

        Without a password one is made up. It is in this answer, once; it is not kept for the
        Idempotency-Key either.
        """
        body = body_of(request)
        password = body.get("password")
        person, chosen = person_create(
            username=body["username"],
            role=body.get("role") or Role.VIEWER,
            actor=actor_of(request),
            password=password or None,
        )
        shown = {} if password else {"password": chosen}
        return Response(
            person_body(person) | shown,
            status=201,
            headers={"Location": f"/api/v1/people/{person.username}"},
        )


class PersonItem(ApiView):
    read_action = Action.MANAGE_PEOPLE
    write_action = Action.MANAGE_PEOPLE

    @call("getPerson", schema.PERSON, tagged=True)
    def get(self, request: Request, username: str) -> Response:
        """Read about one person; for admins."""
        person = person_get(username=username)
        return tagged(_person_tag(person), person_body(person))

    @call(
        "changePerson",
        schema.PERSON,
        body=schema.PERSON_CHANGE,
        if_match=IfMatch.NEEDED,
        tagged=True,
        example={"role": "admin"},
    )
    def patch(self, request: Request, username: str) -> Response:
        """Change a person's role, deactivate or reactivate them; for admins."""
        person = person_get(username=username)
        check_if_match(request, _person_tag(person))
        body = body_of(request)
        person = person_change(
            person=person,
            actor=actor_of(request),
            role=body.get("role"),
            is_active=body.get("is_active"),
        )
        return tagged(_person_tag(person), person_body(person))


class PersonPasswordReset(ApiView):
    write_action = Action.MANAGE_PEOPLE
    keeps_answers = False

    @call(
        "resetPassword",
        schema.PERSON_WITH_PASSWORD,
        body=schema.PASSWORD_RESET,
        if_match=IfMatch.TAKEN,
    )
    def post(self, request: Request, username: str) -> Response:
        """Give a person a new password and end their sessions; for admins."""
        person = person_get(username=username)
        check_if_match(request, _person_tag(person))
        given = body_of(request).get("password")
        chosen = password_reset(person=person, actor=actor_of(request), password=given or None)
        return Response(person_body(person) | ({} if given else {"password": chosen}))


def _token_tag(token: ApiToken) -> dict[str, Any]:
    """What a change of a token is about; using it must not change the tag."""
    return {"token": token.pk, "revoked_at": token.revoked_at}


def _person_tag(person: User) -> dict[str, Any]:
    """What a change of a person is about; signing in must not change the tag."""
    return {"id": person.pk, "role": str(person.role), "is_active": person.is_active}


def _expiry(body: dict[str, Any]) -> datetime | None:
    days = body.get("expires_in_days")
    if days is not None:
        if not 0 < days <= 3650:
            raise InvalidInput(
                "expires_in_days: expected a whole number from 1 to 3650.", reason="BAD_EXPIRY"
            )
        return timezone.now() + timedelta(days=days)
    raw = body.get("expires_at")
    if raw is None:
        return None
    try:
        moment = parse_datetime(raw)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInput(
            "expires_at: expected a moment with zone, such as 2030-01-31T12:00:00Z.",
            reason="BAD_EXPIRY",
        )
    return moment
