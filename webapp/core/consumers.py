"""The live socket: who may watch, what they watch, frames in, frames out.

Each socket runs four small loops that share one LiveBuffer: read the client, hear events, send
frames at the pace the buffer allows, and look after what was missed. None waits for another, so a
slow client or an absent Redis holds up nobody.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

import orjson
from channels.db import database_sync_to_async
from django.contrib.auth.models import AbstractUser
from django.db import DatabaseError
from django.utils import timezone

from webapp.core.live import LiveBuffer, TooManyTopics
from webapp.core.live_channel import LiveChannel
from webapp.core.snapshots import UnknownTopic, snapshot_of

logger = logging.getLogger(__name__)

Identify = Callable[[dict[str, Any]], AbstractUser | None]

MAX_MESSAGE_BYTES = 16 * 1024
GUIDE_FRAME_BYTES = 16 * 1024
QUIET_NS = 8_000_000_000
_CARE_SECONDS = 1.0
IDENTIFY_SECONDS = 30.0
CLOSE_SIGNED_OUT = 4401
CLOSE_TRY_LATER = 1013
MAX_SOCKETS = 500  # each costs tasks and queries; a loop of reconnects must not take the process


class LiveConsumer:
    """The ASGI application of /ws/live/. `identify` finds the user of a scope, or says None."""

    def __init__(self, *, identify: Identify) -> None:
        self._identify = identify
        self._open = 0

    @classmethod
    def as_asgi(cls, *, identify: Identify) -> "LiveConsumer":
        return cls(identify=identify)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()  # websocket.connect
        identify = database_sync_to_async(lambda: self._identify(scope), thread_sensitive=False)
        user = await identify()
        await send({"type": "websocket.accept"})
        if user is None:
            await send(_text(_error("", "NOT_AUTHENTICATED", "Sign in, or send a token.")))
            await send({"type": "websocket.close", "code": CLOSE_SIGNED_OUT})
            return
        if self._open >= MAX_SOCKETS:
            await send(_text(_error("", "TOO_MANY_SOCKETS", "Close other pages and try again.")))
            await send({"type": "websocket.close", "code": CLOSE_TRY_LATER})
            return
        self._open += 1
        try:
            await LiveSocket(user=user, identify=identify, receive=receive, send=send).run()
        finally:
            self._open -= 1


class _Closed(Exception):
    """Ends all loops of a socket."""


class LiveSocket:
    """One open socket, from accept to close."""

    def __init__(self, *, user: AbstractUser, identify: Any, receive: Any, send: Any) -> None:
        self._user = user
        self._identify = identify
        self._receive = receive
        self._raw_send = send
        self._buffer = LiveBuffer()
        self._channel = LiveChannel()
        self._shown: dict[str, str] = {}  # topic → digest of the snapshot last sent
        self._stir = asyncio.Event()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._read())
                loops.create_task(self._hear())
                loops.create_task(self._write())
                loops.create_task(self._care())
        except* _Closed:
            pass
        finally:
            await self._channel.close()

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._raw_send(message)
        except OSError:  # the client went away between two messages
            raise _Closed from None

    # -- the client ---------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                raise _Closed
            await self._answer(message.get("text") or message.get("bytes") or "")

    async def _answer(self, raw: str | bytes) -> None:
        if len(raw) > MAX_MESSAGE_BYTES:
            await self._complain("", "MESSAGE_TOO_LARGE", f"At most {MAX_MESSAGE_BYTES} bytes.")
            return
        try:
            asked = orjson.loads(raw)
        except ValueError:
            asked = None
        match asked:
            case {"type": "subscribe", "topics": list(topics)}:
                for topic in topics:
                    await self._subscribe(topic)
            case {"type": "unsubscribe", "topics": list(topics)}:
                for topic in topics:
                    await self._unsubscribe(str(topic))
            case {"type": "ping"}:
                await self._send(_text(_frame("pong", "", 0, {})))
            case _:
                await self._complain(
                    "",
                    "MALFORMED_MESSAGE",
                    'Send {"type": "subscribe", "topics": ["fleet"]}; also unsubscribe and ping.',
                )

    async def _subscribe(self, topic: Any) -> None:
        if not isinstance(topic, str) or not 0 < len(topic) <= 200:
            await self._complain(str(topic)[:200], "UNKNOWN_TOPIC", "A topic is a short text.")
            return
        try:
            self._buffer.watch(topic)
        except TooManyTopics:
            await self._complain(
                topic, "TOO_MANY_TOPICS", "Unsubscribe from something, or open a second socket."
            )
            return
        await self._channel.join(topic)
        await self._show(topic)

    async def _unsubscribe(self, topic: str) -> None:
        self._buffer.unwatch(topic)
        self._shown.pop(topic, None)
        await self._channel.leave(topic)

    async def _complain(self, topic: str, reason: str, detail: str) -> None:
        await self._send(_text(_error(topic, reason, detail)))

    # -- snapshots ----------------------------------------------------------------------------

    async def _show(self, topic: str, *, only_if_changed: bool = False) -> None:
        """Sends the topic's state as it is now. Events that arrive meanwhile follow as deltas."""
        self._buffer.begin_snapshot(topic)
        try:
            data = await database_sync_to_async(snapshot_of, thread_sensitive=False)(
                topic, self._user
            )
        except UnknownTopic:
            await self._unsubscribe(topic)
            await self._complain(topic, "UNKNOWN_TOPIC", "There is nothing by this name to watch.")
            return
        except DatabaseError as error:
            logger.warning("snapshot of %s: %s", topic, error)
            self._buffer.checked(topic, now_ns=time.monotonic_ns())
            return
        digest = hashlib.sha256(_bytes(data)).hexdigest()
        if only_if_changed and self._shown.get(topic) == digest:
            self._buffer.checked(topic, now_ns=time.monotonic_ns())
            return
        self._shown[topic] = digest
        at = str(data.get("at") or timezone.now().isoformat())
        frame = self._buffer.snapshot(topic, at=at, data=data, now_ns=time.monotonic_ns())
        if frame is not None:
            await self._send(_text(frame))

    # -- events -------------------------------------------------------------------------------

    async def _hear(self) -> None:
        while True:
            event = await self._channel.next_event()
            self._buffer.put(
                event["topic"], at=event["at"], data=event["data"], now_ns=time.monotonic_ns()
            )
            self._stir.set()

    async def _write(self) -> None:
        while True:
            now_ns = time.monotonic_ns()
            if frame := self._buffer.next_frame(now_ns=now_ns):
                payload = _text(frame)
                if len(payload["text"]) > GUIDE_FRAME_BYTES:
                    logger.info("frame of %s: %d bytes", frame["topic"], len(payload["text"]))
                await self._send(payload)
                continue
            for topic in self._buffer.behind():
                await self._show(topic)
            self._stir.clear()
            wait_ns = self._buffer.wait_ns(now_ns=now_ns)
            try:
                await asyncio.wait_for(
                    self._stir.wait(), None if wait_ns is None else wait_ns / 1e9 + 0.001
                )
            except TimeoutError:
                continue

    async def _care(self) -> None:
        """What no event tells: joins that failed, events lost with Redis, a user who lost access."""
        identify_at = time.monotonic() + IDENTIFY_SECONDS
        while True:
            await asyncio.sleep(_CARE_SECONDS)
            for topic in await self._channel.rejoin():
                await self._show(topic)
            for topic in self._buffer.quiet(now_ns=time.monotonic_ns(), for_ns=QUIET_NS):
                await self._show(topic, only_if_changed=True)
            if time.monotonic() >= identify_at:
                identify_at = time.monotonic() + IDENTIFY_SECONDS
                await self._check_user()

    async def _check_user(self) -> None:
        try:
            user = await self._identify()
        except DatabaseError as error:
            logger.warning("cannot check who watches: %s", error)
            return
        if user is None:
            await self._complain("", "NOT_AUTHENTICATED", "You were signed out.")
            await self._send({"type": "websocket.close", "code": CLOSE_SIGNED_OUT})
            raise _Closed
        self._user = user


def _frame(kind: str, topic: str, seq: int, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": kind,
        "topic": topic,
        "seq": seq,
        "at": timezone.now().isoformat(),
        "data": data,
    }


def _error(topic: str, reason: str, detail: str) -> dict[str, Any]:
    return _frame("error", topic, 0, {"reason": reason, "detail": detail})


def _bytes(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS)


def _text(frame: dict[str, Any]) -> dict[str, Any]:
    return {"type": "websocket.send", "text": _bytes(frame).decode()}
