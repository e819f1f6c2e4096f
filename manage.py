#!/usr/bin/env python
"""Hands the command line to Django: with the Python that started it, else with that of .venv."""

import importlib.util
import os
import sys
from pathlib import Path

VENV_PYTHON = Path(__file__).resolve().parent / ".venv" / "bin" / "python"


def main() -> None:
    if importlib.util.find_spec("django") is not None:
        from django.core.management import execute_from_command_line

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
        execute_from_command_line(sys.argv)
    elif VENV_PYTHON.exists() and Path(sys.prefix) != VENV_PYTHON.parent.parent:
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])
    else:
        sys.exit(f"{sys.executable} has no Django: `make run` sets up {VENV_PYTHON}.")


if __name__ == "__main__":
    main()
