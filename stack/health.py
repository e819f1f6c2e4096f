"""Questions that tell whether a part is up. Each answers quickly and never raises."""

import asyncio
import http.client
from collections.abc import Awaitable, Callable
from pathlib import Path

import redis

Health = Callable[[], Awaitable[bool]]


def answers_http(host: str, port: int, path: str) -> Health:
    def ask() -> bool:
        connection = http.client.HTTPConnection(host, port, timeout=2)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return lambda: asyncio.to_thread(ask)


def answers_ping(url: str) -> Health:
    def ask() -> bool:
        client = redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2)
        try:
            return bool(client.ping())
        except (redis.RedisError, OSError):
            return False
        finally:
            client.close()

    return lambda: asyncio.to_thread(ask)


def touched(path: Path) -> Health:
    """A file the part writes once it works; the supervisor removes it before every start."""

    return lambda: asyncio.to_thread(path.exists)
