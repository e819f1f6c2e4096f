"""The environment of a process of the control plane beside a test, on the test's database and Redis."""

import os
from pathlib import Path

from django.db import connection


def control_plane_environment(*, home: Path, redis_url: str) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "SWITCHYARD_HOME": str(home),
        "SWITCHYARD_SECRET_KEY": "for tests only",
        "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
        "REDIS_URL": redis_url,
    }
