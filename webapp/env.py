"""Typed readers of the environment. They refuse nonsense at start instead of guessing."""

import os
from pathlib import Path


class EnvironmentProblem(Exception):
    """A setting has a value that cannot be meant. The message names the variable and the fix."""


def text(name: str, default: str) -> str:
    return os.environ.get(name) or default


def optional_text(name: str) -> str | None:
    return os.environ.get(name) or None


def integer(name: str, default: int) -> int:
    raw = os.environ.get(name)
    if not raw:
        return default
    try:
        return int(raw)
    except ValueError:
        raise EnvironmentProblem(f"{name}: expected a whole number, got {raw!r}") from None


def boolean(name: str, default: bool) -> bool:
    raw = os.environ.get(name)
    if not raw:
        return default
    if raw.lower() in {"1", "true", "yes", "on"}:
        return True
    if raw.lower() in {"0", "false", "no", "off"}:
        return False
    raise EnvironmentProblem(f"{name}: expected true or false, got {raw!r}")


def directory(name: str, default: Path) -> Path:
    return Path(os.environ.get(name) or default).resolve()


def words(name: str, default: list[str]) -> list[str]:
    raw = os.environ.get(name)
    return raw.replace(",", " ").split() if raw else default


def choice(name: str, default: str, allowed: tuple[str, ...], advice: str) -> str:
    """One of `allowed`; `advice` tells what to do instead."""
    chosen = os.environ.get(name) or default
    if chosen not in allowed:
        raise EnvironmentProblem(f"{name}: {chosen!r} is not possible here. {advice}")
    return chosen
