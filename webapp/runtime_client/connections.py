"""One connection per runtime address and process; tests put an in-memory one in its place."""

import atexit
import os
from threading import Lock

from webapp.runtime_client.client import RuntimeClient
from webapp.runtime_client.connection import RuntimeConnection

_connections: dict[tuple[int, str, str, str], RuntimeConnection] = {}
_stand_ins: dict[str, RuntimeConnection] = {}
_lock = Lock()


def connect(*, http_address: str, grpc_address: str, metrics_address: str) -> RuntimeConnection:
    if (stand_in := _stand_ins.get(grpc_address)) is not None:
        return stand_in
    # A gRPC channel does not survive a fork, hence the process in the key.
    key = (os.getpid(), http_address, grpc_address, metrics_address)
    with _lock:
        if key not in _connections:
            _connections[key] = RuntimeClient(
                http_address, grpc_address, metrics_address=metrics_address
            )
        return _connections[key]


def stand_in(grpc_address: str, connection: RuntimeConnection | None) -> None:
    """From now on `connect` answers with this connection for the address; None ends that."""
    if connection is None:
        _stand_ins.pop(grpc_address, None)
    else:
        _stand_ins[grpc_address] = connection


@atexit.register
def close_all() -> None:
    """Before the interpreter takes gRPC apart; a channel that is left to it complains."""
    with _lock:
        while _connections:
            (process, *_), connection = _connections.popitem()
            if process == os.getpid():
                connection.close()
