"""Live events: told to whoever watches a topic, after the change they tell of is committed."""

import asyncio
import hashlib
import logging
from datetime import datetime
from typing import Any, Literal, TypedDict

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.utils import timezone

logger = logging.getLogger(__name__)

_SEND_LIMIT_SECONDS = 2.0


class LiveEvent(TypedDict):
    type: Literal["live.event"]
    topic: str
    at: str
    data: dict[str, Any]


def group_of(topic: str) -> str:
    """The channel layer's group for a topic; topics may hold characters that groups may not."""
    return f"live.{hashlib.sha256(topic.encode()).hexdigest()[:40]}"


def publish(*, topic: str, data: dict[str, Any], at: datetime | None = None) -> None:
    """Sends the whole newest state of `topic` once the current transaction is committed.

    Never raises when Redis is away: a watcher's socket asks for a fresh snapshot by itself.
    """
    event = LiveEvent(
        type="live.event", topic=topic, at=(at or timezone.now()).isoformat(), data=data
    )
    transaction.on_commit(lambda: _send_all([event]))


def publish_many(*, events: dict[str, dict[str, Any]], at: datetime | None = None) -> None:
    """`publish` for several topics at once, over one connection."""
    moment = (at or timezone.now()).isoformat()
    batch = [
        LiveEvent(type="live.event", topic=topic, at=moment, data=data)
        for topic, data in events.items()
    ]
    transaction.on_commit(lambda: _send_all(batch))


def _send_all(events: list[LiveEvent]) -> None:
    try:
        async_to_sync(_group_send)(events)
    except Exception as error:  # noqa: BLE001 - a lost event must never undo or stop the work it tells of
        logger.warning("live events not sent (%d): %s", len(events), error)


async def _group_send(events: list[LiveEvent]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    async with asyncio.timeout(_SEND_LIMIT_SECONDS):
        for event in events:
            await layer.group_send(group_of(event["topic"]), dict(event))
