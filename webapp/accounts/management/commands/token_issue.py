"""Issues an API token from the command line; the token is the last line printed."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from webapp.accounts.selectors import person_get
from webapp.accounts.services import token_issue
from webapp.core.errors import ControlPlaneError


class Command(BaseCommand):
    help = "Issues an API token and prints it as the last line. It cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="whose token")
        parser.add_argument("--name", default="command line", help="what will use it")
        parser.add_argument("--expires-days", type=int, help="never, when left out")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["expires_days"]
        try:
            token, presented = token_issue(
                user=person_get(username=options["user"]),
                name=options["name"],
                actor=None,
                expires_at=timezone.now() + timedelta(days=days) if days is not None else None,
            )
        except ControlPlaneError as error:
            raise CommandError(f"{error.detail} {error.help_text}".strip()) from None
        until = f"until {token.expires_at:%Y-%m-%d}" if token.expires_at else "until revoked"
        self.stderr.write(f"Token “{token.name}” of {token.user.username}, valid {until}:")
        self.stdout.write(presented)
