"""The project's settings for tests: own home, fast hashing, layers in memory."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("SWITCHYARD_HOME", tempfile.mkdtemp(prefix="switchyard-test-"))
os.environ.setdefault("SWITCHYARD_SECRET_KEY", "for tests only")

from webapp.settings import *  # noqa: F403
from webapp.settings import HOME

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(Path(HOME) / "test.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
        },
        # A file, because threads of a socket or a heartbeat look at it at the same time.
        "TEST": {"NAME": str(Path(HOME) / "test-run.sqlite3")},
    }
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
CELERY_BROKER_URL = "memory://"
