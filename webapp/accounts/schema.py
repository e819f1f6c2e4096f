"""People and tokens in the API's description, and how callers say who they are."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from webapp.accounts.choices import Role
from webapp.accounts.permissions import Action
from webapp.core.json_schema import (
    array,
    body,
    flag,
    listed,
    maybe,
    moment,
    named,
    one_of,
    record,
    shape,
    text,
    whole,
)


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "webapp.accounts.authentication.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A token of yours: sy_…"}


ROLE = one_of(Role.values, "What they may do: each role may do what those before it may.")
_PERSON_FIELDS = {
    "username": text(),
    "role": ROLE,
    "is_active": flag("Whether they can sign in and their tokens work."),
    "created_at": moment(),
    "last_login_at": maybe(moment()),
}
PERSON = shape("Person", _PERSON_FIELDS)
PEOPLE = listed("PersonPage", PERSON)
ME = shape(
    "Me",
    _PERSON_FIELDS | {"may": array(one_of(Action), "What the role allows.")},
)
_NEW_PERSON = record(_PERSON_FIELDS)
_NEW_PERSON["properties"] |= {"password": text("Made up, shown once; absent when you sent one.")}
PERSON_WITH_PASSWORD = named("PersonWithPassword", _NEW_PERSON)
PERSON_NEW = body(
    "PersonNew",
    {"username": text("Letters, digits and @ . + - _ only.", minLength=1, maxLength=150)},
    {
        "role": one_of(Role.values, "viewer when left out."),
        "password": text("Made up and answered when left out."),
    },
)
PERSON_CHANGE = body("PersonChange", {}, {"role": one_of(Role.values), "is_active": flag()})
PASSWORD_RESET = body(
    "PasswordReset", {}, {"password": text("Made up and answered when left out.")}
)

_TOKEN_FIELDS = {
    "id": whole("Names the token; it is not the token."),
    "name": text("What uses it."),
    "hint": text("How it begins."),
    "state": one_of(("active", "expired", "revoked")),
    "created_at": moment(),
    "last_used_at": maybe(moment("To the minute.")),
    "expires_at": maybe(moment("null: never.")),
    "revoked_at": maybe(moment()),
}
TOKEN = shape("Token", _TOKEN_FIELDS)
TOKENS = listed("TokenPage", TOKEN)
TOKEN_ISSUED = shape(
    "TokenIssued", _TOKEN_FIELDS | {"token": text("The token itself: shown now and never again.")}
)
TOKEN_NEW = body(
    "TokenNew",
    {"name": text("To know later what uses it.", minLength=1, maxLength=100)},
    {
        "expires_in_days": whole("Never when left out.", minimum=1, maximum=3650),
        "expires_at": moment("Instead of `expires_in_days`; with a zone."),
    },
)
