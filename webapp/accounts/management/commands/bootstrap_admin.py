"""Makes sure there is an admin; called by `make run` before the web process starts."""

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.accounts.services import admin_bootstrap


class Command(BaseCommand):
    help = (
        "Creates the first admin with SWITCHYARD_ADMIN_PASSWORD or a random password, shown once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--json",
            action="store_true",
            help='one line: {"created", "username", "password"}; password null unless just made up',
        )

    def handle(self, *args: Any, **options: Any) -> None:
        admin, chosen = admin_bootstrap(password=settings.ADMIN_PASSWORD)
        made_up = chosen if chosen is not None and settings.ADMIN_PASSWORD is None else None
        if options["json"]:
            answer = {
                "created": chosen is not None,
                "username": admin.username,
                "password": made_up,
            }
            self.stdout.write(json.dumps(answer))
        elif chosen is None:
            self.stdout.write(f"There is an admin already: {admin.username}.")
        else:
            shown = made_up or "the one in SWITCHYARD_ADMIN_PASSWORD"
            self.stdout.write(f"Created the admin {admin.username}. Password: {shown}")
