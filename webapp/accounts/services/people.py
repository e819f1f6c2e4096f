"""Creating people and changing what they may do. There is always at least one active admin."""

import secrets
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from webapp.accounts.choices import Role
from webapp.accounts.models import User
from webapp.audit.services import audit_record
from webapp.core.errors import Conflict, InvalidInput

FIRST_ADMIN = "admin"


def person_create(
    *, username: str, role: str, actor: User | None, password: str | None = None
) -> tuple[User, str]:
    """The person and their first password, made up when none is given."""
    username = username.strip()
    _check_username(username)
    person = User(username=username, role=_role(role))
    password = _checked(password, person) if password else made_up_password()
    person.set_password(password)
    try:
        with transaction.atomic():
            person.save()
            audit_record(
                actor=actor,
                action="person.create",
                target=f"people/{username}",
                after=_facts(person),
            )
    except IntegrityError:
        raise Conflict(
            f"There is already somebody called {username!r}.", reason="USERNAME_TAKEN"
        ) from None
    return person, password


def person_change(
    *, person: User, actor: User, role: str | None = None, is_active: bool | None = None
) -> User:
    """Sets the role, deactivates or reactivates. Nothing given: nothing happens."""
    with transaction.atomic():
        admins = list(
            User.objects.select_for_update()
            .filter(role=Role.ADMIN, is_active=True)
            .values_list("pk", flat=True)
        )
        person = User.objects.select_for_update().get(pk=person.pk)
        before = _facts(person)
        if role is not None:
            person.role = _role(role)
        if is_active is not None:
            person.is_active = is_active
        after = _facts(person)
        if after == before:
            return person
        if admins == [person.pk] and not (person.is_active and person.role == Role.ADMIN):
            raise Conflict(
                f"{person.username} is the last active admin.",
                reason="LAST_ADMIN",
                help_text="Make somebody else an admin first.",
            )
        person.save(update_fields=["role", "is_active"])
        audit_record(
            actor=actor,
            action="person.change",
            target=f"people/{person.username}",
            before=before,
            after=after,
        )
    return person


def password_reset(*, person: User, actor: User | None, password: str | None = None) -> str:
    """Sets a new password, made up when none is given, and ends the person's sessions."""
    password = _checked(password, person) if password else made_up_password()
    _set(person, password, actor=actor, action="person.password_reset")
    return password


def password_change(*, person: User, current: str, new: str) -> None:
    if not person.check_password(current):
        raise InvalidInput(
            "That is not your current password.",
            reason="WRONG_PASSWORD",
            errors=[{"pointer": "/current", "detail": "Not your current password."}],
        )
    _set(person, _checked(new, person), actor=person, action="person.password_change")


def admin_bootstrap(*, password: str | None) -> tuple[User, str | None]:
    """The first admin; the password comes back only when this call created them.

    The one from the environment is taken as it is: whoever sets it owns the machine.
    """
    with transaction.atomic():
        found = User.objects.filter(role=Role.ADMIN, is_active=True).order_by("pk").first()
        if found is not None:
            return found, None
        chosen = password or made_up_password()
        admin, made = User.objects.get_or_create(username=FIRST_ADMIN)
        before = None if made else _facts(admin)
        admin.role, admin.is_active = Role.ADMIN, True
        admin.set_password(chosen)
        admin.save()
        audit_record(
            actor=None,
            action="person.create" if made else "person.change",
            target=f"people/{admin.username}",
            before=before,
            after=_facts(admin),
            note="first start" if made else "no active admin was left",
        )
    return admin, chosen


def made_up_password() -> str:
    return secrets.token_urlsafe(12)


def _set(person: User, password: str, *, actor: User | None, action: str) -> None:
    with transaction.atomic():
        person.set_password(password)
        person.save(update_fields=["password"])
        audit_record(
            actor=actor,
            action=action,
            target=f"people/{person.username}",
            after={"password": "replaced", "sessions": "ended"},
        )


def _checked(password: str, person: User) -> str:
    try:
        validate_password(password, person)
    except ValidationError as error:
        text = " ".join(error.messages)
        raise InvalidInput(
            text, reason="WEAK_PASSWORD", errors=[{"pointer": "/password", "detail": text}]
        ) from None
    return password


def _check_username(username: str) -> None:
    try:
        UnicodeUsernameValidator()(username)
    except ValidationError:
        username = ""
    if not 0 < len(username) <= 150:
        raise InvalidInput(
            "A user name has 1 to 150 letters, digits and @ . + - _ only.",
            reason="BAD_USERNAME",
            errors=[{"pointer": "/username", "detail": "letters, digits and @ . + - _ only"}],
        )


def _role(role: str) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise InvalidInput(
            f"There is no role {role!r}.",
            reason="UNKNOWN_ROLE",
            help_text=f"Roles: {', '.join(Role.values)}.",
            errors=[{"pointer": "/role", "detail": f"one of {', '.join(Role.values)}"}],
        ) from None


def _facts(person: User) -> dict[str, Any]:
    return {"role": str(person.role), "is_active": person.is_active}
