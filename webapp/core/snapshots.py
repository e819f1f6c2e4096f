"""Which topics can be watched, and what a watcher is shown first."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import AbstractUser

Provider = Callable[[str, AbstractUser], dict[str, Any] | None]

_providers: dict[str, Provider] = {}


class UnknownTopic(Exception):
    """No provider for the prefix, or it says there is no such thing."""


def register(prefix: str, provider: Provider) -> None:
    """`provider(name, user)` answers for topics `prefix:name` (and for `prefix` alone, name "").

    It runs in a thread with a database connection, at each subscription and again whenever a topic
    has been quiet for some seconds, so it should cost a query or two. None: there is no such thing.
    A key "at" (ISO 8601) in the answer says how old the data is.
    """
    _providers[prefix] = provider


def snapshot_of(topic: str, user: AbstractUser) -> dict[str, Any]:
    prefix, _, name = topic.partition(":")
    provider = _providers.get(prefix)
    data = provider(name, user) if provider is not None else None
    if data is None:
        raise UnknownTopic(topic)
    return data
