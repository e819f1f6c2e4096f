"""Ports that several processes listen on: found free, and held for as long as the server lives.

A socket that is bound and does not listen gets no connection; it keeps the number for front ends that
come later, and tells at the start that somebody else has it.
"""

import errno
import socket
from dataclasses import dataclass
from typing import Final

from inference_runtime.errors import Unavailable

_TRIES: Final = 20


@dataclass(slots=True)
class HeldPort:
    port: int
    sockets: list[socket.socket]

    def close(self) -> None:
        for held in self.sockets:
            held.close()


def hold_port(host: str, port: int, *, shared: bool) -> HeldPort:
    """`port` 0: any. `shared`: other servers may listen there too. Raises Unavailable."""
    for attempt in range(_TRIES):
        try:
            return _hold(host, port, shared=shared)
        except OSError as error:
            if isinstance(error, socket.gaierror):
                text = f"Socket '{_shown(host, port)}' has no such address: {error}"
                raise Unavailable(text) from error
            if error.errno != errno.EADDRINUSE:
                text = f"Socket '{_shown(host, port)}' can not be opened: {error.strerror}"
                raise Unavailable(text) from error
            if port or attempt == _TRIES - 1:
                raise Unavailable(f"Socket '{_shown(host, port)}' already in use") from error
    raise AssertionError("the last attempt returns or raises")


def _hold(host: str, port: int, *, shared: bool) -> HeldPort:
    held = HeldPort(port, [])
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            target = (address[0], held.port, *address[2:])
            if not shared and held.port:
                _check_free(family, kind, protocol, target)
            bound = _socket(family, kind, protocol)
            held.sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind(target)
            held.port = bound.getsockname()[1]
    except OSError:
        held.close()
        raise
    return held


def _check_free(family: int, kind: int, protocol: int, target: tuple[object, ...]) -> None:
    """Without SO_REUSEPORT: another server that shares its port would let us in."""
    with _socket(family, kind, protocol) as test:
        test.bind(target)


def _socket(family: int, kind: int, protocol: int) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return made


def _shown(host: str, port: int) -> str:
    return f"{host or '0.0.0.0'}:{port}"
