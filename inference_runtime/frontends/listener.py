"""A listening socket and the connections it brought: accepting, watching, draining, closing."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol

from inference_runtime.errors import Unavailable

BACKLOG: Final = 1024
_TICK_S: Final = 1.0
_HANDSHAKE_S: Final = 15.0


class Connection(Protocol):
    """What a listener needs to know of the connections it holds."""

    def watch(self, elapsed_s: float) -> None:
        """Called about once a second: the place for timeouts."""

    def drain(self) -> None:
        """Finish what is under way, take nothing new, close."""

    def abort(self) -> None:
        """Close now."""


class Listener:
    """Made by `listen`. `port` is the real one, also where 0 was asked for."""

    def __init__(self, max_connections: int) -> None:
        self.port = 0
        self.stopping = False
        self.connections: set[Any] = set()
        self._max_connections = max_connections
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    async def start(
        self,
        factory: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        *,
        reuse_port: bool,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                factory,
                host or None,
                port,
                reuse_address=True,
                reuse_port=reuse_port or None,
                backlog=BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=_HANDSHAKE_S if tls is not None else None,
            )
        except OSError as error:
            raise _refusal(error, host, port) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self._ticker = loop.call_later(_TICK_S, self._tick)

    def joined(self, connection: Connection) -> bool:
        """False: there are as many as there may be, and this one is to be closed."""
        if len(self.connections) >= self._max_connections:
            return False
        self.connections.add(connection)
        self._empty.clear()
        return True

    def left(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def stop_accepting(self) -> None:
        """Closes the socket; connections that are open go on."""
        self.stopping = True
        if self._server is not None:
            self._server.close()

    async def close(self, grace_s: float) -> None:
        """Waits for requests under way, at most this long, and closes everything."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.drain()
        try:
            await asyncio.wait_for(self._empty.wait(), grace_s)
        except TimeoutError:
            for connection in list(self.connections):
                connection.abort()
            await self._empty.wait()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            await self._server.wait_closed()

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        for connection in list(self.connections):
            connection.watch(_TICK_S)


def _refusal(error: OSError, host: str, port: int) -> Unavailable:
    address = f"{host or '0.0.0.0'}:{port}"
    if error.errno == errno.EADDRINUSE:
        return Unavailable(f"Socket '{address}' already in use")
    if isinstance(error, socket.gaierror):
        return Unavailable(f"Socket '{address}' has no such address: {error}")
    return Unavailable(f"Socket '{address}' can not be opened: {error.strerror}")
