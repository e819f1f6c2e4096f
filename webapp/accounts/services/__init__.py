"""Writes of people and tokens, each with its audit row."""

from webapp.accounts.services.logins import login_check, logins_prune
from webapp.accounts.services.people import (
    admin_bootstrap,
    password_change,
    password_reset,
    person_change,
    person_create,
)
from webapp.accounts.services.tokens import token_issue, token_mark_used, token_revoke

__all__ = [
    "admin_bootstrap",
    "login_check",
    "logins_prune",
    "password_change",
    "password_reset",
    "person_change",
    "person_create",
    "token_issue",
    "token_mark_used",
    "token_revoke",
]
