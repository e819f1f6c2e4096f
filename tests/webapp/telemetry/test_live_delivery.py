"""From a runtime's counters to a watcher's socket, through real channel layers."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import channel_layers
from django.test import override_settings

from tests.fakes.counting_runtime import CountingRuntime
from tests.fakes.redis_server import RedisServer
from tests.webapp.core.test_live_socket import Socket
from tests.world import World
from webapp.accounts.models import User
from webapp.core.snapshots import UnknownTopic, snapshot_of
from webapp.serving.models import Runtime
from webapp.telemetry.sampler import Sampler, whole_second
from webapp.telemetry.services import mark_event

pytestmark = pytest.mark.django_db(transaction=True)
in_thread = sync_to_async(thread_sensitive=False)


@pytest.fixture
def runtime(transactional_db: None) -> Iterator[CountingRuntime]:
    row = Runtime.objects.create(
        name="edge-1", http_address="127.0.0.1:1", grpc_address="edge-1:1", embedded=True
    )
    with CountingRuntime().at(row.grpc_address) as counting:
        yield counting


@pytest.fixture
def header(transactional_db: None) -> tuple[bytes, bytes]:
    return (b"authorization", f"Bearer {World.build().token('viewer')}".encode())


async def until_told(socket: Socket, sampler: Sampler, topic: str, wanted: Any) -> Any:
    """Ticks until a delta of the topic satisfies."""
    for _ in range(20):
        await in_thread(sampler.tick)(at=whole_second(datetime.now(UTC)))
        try:
            frame = await socket.frame(limit_s=1)
        except TimeoutError:
            continue
        while frame["topic"] != topic or frame["type"] != "delta":
            frame = await socket.frame()
        if wanted(frame["data"]["telemetry"]):
            return frame
    raise AssertionError("never told")


async def watch_a_request(header: tuple[bytes, bytes], runtime: CountingRuntime) -> None:
    runtime.load("resnet50", 3)
    sampler = Sampler(holder="test")
    await in_thread(sampler.tick)(at=whole_second(datetime.now(UTC)))
    socket = Socket(header)
    assert await socket.connect()
    await socket.ask(type="subscribe", topics=["fleet"])
    first = await socket.frame()
    assert (first["type"], first["topic"]) == ("snapshot", "fleet")
    assert first["data"]["telemetry"]["runtimes"] == {"edge-1": {"known": False}}
    await asyncio.sleep(0)
    runtime.serve("resnet50", 3, requests=12)
    await in_thread(mark_event)(kind="promote", text="v3 takes all", model_name="resnet50")
    frame = await until_told(
        socket, sampler, "fleet", lambda told: told["values"].get("requests_per_second|resnet50|3")
    )
    told = frame["data"]["telemetry"]
    assert told["known"]
    assert told["golden"]["requests_per_second"] > 0
    assert [mark["text"] for mark in told["marks"]] == ["v3 takes all"]
    await socket.disconnect()
    await in_thread(sampler.close)()


async def test_a_watcher_sees_requests_and_marks_within_a_tick(
    header: tuple[bytes, bytes], runtime: CountingRuntime
) -> None:
    await watch_a_request(header, runtime)


@pytest.mark.redis
async def test_redis_delivers_what_the_memory_layer_does(
    header: tuple[bytes, bytes], runtime: CountingRuntime, live_redis: RedisServer
) -> None:
    layers = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [live_redis.url]},
        }
    }
    with override_settings(CHANNEL_LAYERS=layers):
        channel_layers.backends = {}
        try:
            await watch_a_request(header, runtime)
        finally:
            await channel_layers["default"].flush()
            channel_layers.backends = {}


@pytest.mark.redis
def test_sampling_goes_on_without_redis(runtime: CountingRuntime, live_redis: RedisServer) -> None:
    from webapp.telemetry.models import RuntimeSample

    layers = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [live_redis.url]},
        }
    }
    live_redis.kill()
    with override_settings(CHANNEL_LAYERS=layers):
        channel_layers.backends = {}
        try:
            sampler = Sampler(holder="test")
            for _ in range(2):
                assert sampler.tick(at=whole_second(datetime.now(UTC)))
            sampler.close()
        finally:
            channel_layers.backends = {}
    assert RuntimeSample.objects.count() == 2


# -- snapshots --------------------------------------------------------------------------------
def snapshot(topic: str) -> Any:
    return snapshot_of(topic, User())["telemetry"]


def test_snapshot_repeats_the_last_frame(runtime: CountingRuntime) -> None:
    runtime.load("resnet50", 3)
    sampler = Sampler(holder="test")
    at = whole_second(datetime.now(UTC))
    sampler.tick(at=at)
    runtime.serve("resnet50", 3, requests=4, failures=1)
    sampler.tick(at=at)
    sampler.close()
    told = snapshot("model:resnet50")
    assert told["known"]
    assert told["values"]["error_share"] == 0.25
    assert told["scopes"]["edge-1"]["values"]["failure_share"] == 0.25
    assert told["at"] == round(at.timestamp() * 1000)


def test_snapshot_before_any_sample_is_empty_and_what_is_not_there_is_unknown(
    runtime: CountingRuntime,
) -> None:
    assert snapshot("fleet") is None
    for topic in ("model:nothing", "runtime:nothing", "fleet:x"):
        with pytest.raises(UnknownTopic):
            snapshot_of(topic, User())
