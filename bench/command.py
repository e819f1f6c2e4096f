"""What the commands `python -m bench…` have in common: options, the loader that must be there, facts of a run."""

import argparse
import os
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from bench import load

_RESULTS = Path(__file__).parent / "RESULTS.md"


def command(name: str, description: str | None, *, seconds: int = 2) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=description)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=seconds, help="of each measurement")
    return parser


def with_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="print, do not write RESULTS.md")


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Ends the process where there is no h2load."""
    arguments = parser.parse_args()
    try:
        load.require_h2load()
    except load.NoLoader as problem:
        sys.exit(str(problem))
    return arguments


def results(arguments: argparse.Namespace) -> Path:
    return Path(os.devnull) if arguments.dry_run else _RESULTS


def facts(arguments: argparse.Namespace, more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {
        "Measured": str(date.today()),  # noqa: DTZ011 - the day on the wall, for people
        "cores": str(os.cpu_count()),
        "rounds": str(arguments.rounds),
        "seconds": str(arguments.seconds),
        **(more or {}),
    }
