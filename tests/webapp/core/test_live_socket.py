"""/ws/live/ through the real application: who may watch, what they see, what survives."""

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import channel_layers
from django.test import override_settings

from tests.fakes.redis_server import RedisServer
from tests.world import World, claim_of
from webapp.accounts.services import person_change
from webapp.core import consumers, snapshots
from webapp.core.events import publish
from webapp.jobs.choices import JobKind
from webapp.jobs.services import job_cancel, job_heartbeat, job_request
from webapp.routing import websocket

pytestmark = pytest.mark.django_db(transaction=True)

HOST = (b"host", b"switchyard.test")


class Socket(ApplicationCommunicator):
    """A client that speaks frames."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        scope = {"type": "websocket", "path": "/ws/live/", "headers": [HOST, *headers]}
        super().__init__(websocket, scope)

    async def connect(self) -> bool:
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(5))["type"] == "websocket.accept"

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)

    async def say(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def ask(self, **message: Any) -> None:
        await self.say(json.dumps(message))

    async def frame(self, limit_s: float = 5) -> dict[str, Any]:
        output = await self.receive_output(limit_s)
        assert output["type"] == "websocket.send", output
        return json.loads(output["text"])

    async def frames_until(self, wanted: Any, *, limit: int = 200) -> dict[str, Any]:
        for _ in range(limit):
            frame = await self.frame(limit_s=20)
            if wanted(frame):
                return frame
        raise AssertionError("never came")


@pytest.fixture
def world(transactional_db: None) -> World:
    return World.build()


@pytest.fixture
def bearer(world: World):
    return lambda role: (b"authorization", f"Bearer {world.token(role)}".encode())


def new_job():
    return job_request(kind=JobKind.INSPECT_VERSION, subject_id="1", target="m", actor=None)


in_thread = sync_to_async(thread_sensitive=False)


async def opened(*headers: tuple[bytes, bytes]) -> Socket:
    socket = Socket(*headers)
    assert await socket.connect()
    return socket


async def test_a_token_opens_the_socket_and_the_snapshot_comes_first(bearer):
    header = await in_thread(bearer)("viewer")
    job = await in_thread(new_job)()
    socket = await opened(header)
    await socket.ask(type="subscribe", topics=[f"job:{job.id}"])
    frame = await socket.frame()
    assert (frame["type"], frame["topic"], frame["seq"]) == ("snapshot", f"job:{job.id}", 1)
    assert frame["data"]["state"] == "PENDING"
    claim = await in_thread(claim_of)(job)
    await in_thread(job_heartbeat)(claim=claim, progress=0.5, phase="half")
    frame = await socket.frames_until(lambda frame: frame["data"]["progress"] == 0.5)
    assert frame["type"] == "delta"
    await socket.disconnect()


async def test_a_session_opens_the_socket(world: World):
    client = await in_thread(world.client)("viewer")
    cookie = f"sessionid={client.cookies['sessionid'].value}".encode()
    socket = await opened((b"cookie", cookie), (b"origin", b"http://switchyard.test"))
    await socket.ask(type="ping")
    assert (await socket.frame())["type"] == "pong"
    await socket.disconnect()


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer sy_wrong")]])
async def test_strangers_are_told_and_closed(headers):
    socket = await opened(*headers)
    assert (await socket.frame())["data"]["reason"] == "NOT_AUTHENTICATED"
    assert (await socket.receive_output())["code"] == consumers.CLOSE_SIGNED_OUT


async def test_another_sites_page_cannot_use_the_visitors_session(world: World):
    client = await in_thread(world.client)("viewer")
    cookie = f"sessionid={client.cookies['sessionid'].value}".encode()
    socket = Socket((b"cookie", cookie), (b"origin", b"https://evil.example"))
    assert not await socket.connect()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("not json", "MALFORMED_MESSAGE"),
        ("[]", "MALFORMED_MESSAGE"),
        ("[" * 100_000, "MESSAGE_TOO_LARGE"),
        ('{"type": "subscribe"}', "MALFORMED_MESSAGE"),
        ('{"type": "subscribe", "topics": "fleet"}', "MALFORMED_MESSAGE"),
        ('{"type": "subscribe", "topics": [7]}', "UNKNOWN_TOPIC"),
        ('{"type": "subscribe", "topics": ["nonsense:1"]}', "UNKNOWN_TOPIC"),
        ('{"type": "subscribe", "topics": ["job:op_nothing"]}', "UNKNOWN_TOPIC"),
        ('{"type": "subscribe", "topics": ["' + "x" * 300 + '"]}', "UNKNOWN_TOPIC"),
        ("\x00", "MALFORMED_MESSAGE"),
    ],
)
async def test_nonsense_is_answered_and_the_socket_lives(bearer, sent: str, reason: str):
    socket = await opened(await in_thread(bearer)("viewer"))
    await socket.say(sent)
    frame = await socket.frame()
    assert (frame["type"], frame["data"]["reason"]) == ("error", reason)
    await socket.ask(type="ping")
    assert (await socket.frame())["type"] == "pong"
    await socket.disconnect()


async def test_topics_are_bounded(bearer, monkeypatch: pytest.MonkeyPatch):
    snapshots.register("numbered", lambda name, user: {"name": name})
    socket = await opened(await in_thread(bearer)("viewer"))
    await socket.ask(type="subscribe", topics=[f"numbered:{n}" for n in range(33)])
    kinds = [(await socket.frame())["type"] for _ in range(33)]
    assert kinds == ["snapshot"] * 32 + ["error"]
    await socket.disconnect()


async def test_sockets_are_bounded_and_freed(bearer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumers, "MAX_SOCKETS", 1)
    header = await in_thread(bearer)("viewer")
    first = await opened(header)
    second = await opened(header)
    assert (await second.frame())["data"]["reason"] == "TOO_MANY_SOCKETS"
    await first.disconnect()
    third = await opened(header)
    await third.ask(type="ping")
    assert (await third.frame())["type"] == "pong"
    await third.disconnect()


async def test_a_burst_is_thinned_and_its_last_state_arrives(bearer):
    snapshots.register("burst", lambda name, user: {"n": -1})
    socket = await opened(await in_thread(bearer)("viewer"))
    await socket.ask(type="subscribe", topics=["burst"])
    await socket.frame()
    for n in range(50):
        await in_thread(publish)(topic="burst", data={"n": n})
    frames: list[dict[str, Any]] = []
    while not frames or frames[-1]["data"]["n"] != 49:
        frames.append(await socket.frame())
    assert len(frames) < 20
    assert [frame["seq"] for frame in frames] == list(range(2, 2 + len(frames)))
    await socket.disconnect()


async def test_unsubscribing_ends_the_frames(bearer):
    snapshots.register("over", lambda name, user: {"n": 0})
    socket = await opened(await in_thread(bearer)("viewer"))
    await socket.ask(type="subscribe", topics=["over"])
    await socket.frame()
    await socket.ask(type="unsubscribe", topics=["over"])
    await socket.ask(type="ping")
    assert (await socket.frame())["type"] == "pong"
    await in_thread(publish)(topic="over", data={"n": 1})
    assert await socket.receive_nothing(0.6)
    await socket.disconnect()


async def test_an_event_that_was_lost_is_found_by_looking_again(
    bearer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumers, "QUIET_NS", 100_000_000)
    state = {"n": 0}
    snapshots.register("lost", lambda name, user: dict(state))
    socket = await opened(await in_thread(bearer)("viewer"))
    await socket.ask(type="subscribe", topics=["lost"])
    await socket.frame()
    state["n"] = 1  # nobody publishes
    frame = await socket.frame()
    assert (frame["type"], frame["data"]) == ("snapshot", {"n": 1})
    assert await socket.receive_nothing(1.5), "unchanged is not sent again"
    await socket.disconnect()


async def test_losing_access_closes_the_socket(
    world: World, bearer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumers, "IDENTIFY_SECONDS", 0.0)
    socket = await opened(await in_thread(bearer)("viewer"))
    await in_thread(person_change)(person=world.vic, actor=world.ada, is_active=False)
    frame = await socket.frame()
    assert frame["data"]["reason"] == "NOT_AUTHENTICATED"
    assert (await socket.receive_output(5))["code"] == consumers.CLOSE_SIGNED_OUT


@pytest.mark.redis
async def test_the_socket_outlives_redis(bearer, live_redis: RedisServer):
    layers = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [live_redis.url]},
        }
    }
    header = await in_thread(bearer)("viewer")
    with override_settings(CHANNEL_LAYERS=layers):
        channel_layers.backends = {}
        try:
            await _through_a_restart(header, live_redis)
        finally:
            await channel_layers["default"].flush()
            channel_layers.backends = {}


async def _through_a_restart(header: tuple[bytes, bytes], server: RedisServer) -> None:
    job, other = await in_thread(new_job)(), await in_thread(new_job)()
    socket = await opened(header)
    await socket.ask(type="subscribe", topics=[f"job:{job.id}"])
    await socket.frame()
    claim = await in_thread(claim_of)(job)
    await socket.frames_until(lambda frame: frame["data"]["state"] == "RUNNING")

    await in_thread(server.kill)()
    await in_thread(job_heartbeat)(claim=claim, progress=0.3, phase="in the dark")
    await socket.ask(type="subscribe", topics=[f"job:{other.id}"])
    frame = await socket.frames_until(lambda frame: frame["topic"] == f"job:{other.id}")
    assert frame["type"] == "snapshot", "watching starts without Redis too"
    late = await opened(header)  # and so does a socket
    await socket.frames_until(lambda frame: frame["data"].get("progress") == 0.3)

    await in_thread(server.start)()
    await late.ask(type="subscribe", topics=[f"job:{job.id}"])
    await late.frame()

    async def keep_telling() -> None:
        progress = 0.4
        while True:
            progress = progress + 0.001
            await in_thread(job_heartbeat)(claim=claim, progress=progress, phase="light again")
            await asyncio.sleep(0.2)

    telling = asyncio.create_task(keep_telling())
    for watcher in (socket, late):
        await watcher.frames_until(
            lambda frame: frame["type"] == "delta" and frame["data"]["phase"] == "light again"
        )
    telling.cancel()
    await in_thread(job_cancel)(job=other, actor=None)
    await socket.frames_until(lambda frame: frame["data"]["state"] == "CANCELLED")
    await socket.disconnect()
    await late.disconnect()
