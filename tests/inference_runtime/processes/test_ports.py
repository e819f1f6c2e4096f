"""Ports are held without serving, and refused where somebody else has them."""

import socket

import pytest

from inference_runtime.errors import Unavailable
from inference_runtime.processes.ports import hold_port


def listening_on(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


def test_a_held_port_can_be_listened_on_by_several_and_takes_no_connection_itself():
    held = hold_port("127.0.0.1", 0, shared=False)
    listening = []
    try:
        for _ in range(2):
            listening.append(listening_on(held.port))
        for _ in range(20):
            socket.create_connection(("127.0.0.1", held.port), timeout=5).close()
    finally:
        for one in listening:
            one.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", held.port), timeout=5)
    held.close()


def test_a_port_whose_owner_would_share_it_is_refused_unless_that_is_wanted():
    first = hold_port("127.0.0.1", 0, shared=False)
    with (
        listening_on(first.port),
        pytest.raises(Unavailable, match=f"Socket '127.0.0.1:{first.port}' already in use"),
    ):
        hold_port("127.0.0.1", first.port, shared=False)
    second = hold_port("127.0.0.1", first.port, shared=True)
    assert second.port == first.port
    for held in (first, second):
        held.close()


def test_an_address_that_is_none_is_named():
    with pytest.raises(Unavailable, match="no such address"):
        hold_port("no.such.host.invalid", 0, shared=False)
    with pytest.raises(Unavailable, match="can not be opened"):
        hold_port("192.0.2.1", 0, shared=False)
