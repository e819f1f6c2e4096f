"""Settings of the processes that test_takeover starts: a database file in their own home."""

from tests.settings import *  # noqa: F403
from tests.settings import HOME


class _WithoutMigrations:
    """Tables straight from the models, whatever migrations there are."""

    def __contains__(self, app: str) -> bool:
        return True

    def __getitem__(self, app: str) -> None:
        return None


MIGRATION_MODULES = _WithoutMigrations()
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(HOME / "takeover.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}
