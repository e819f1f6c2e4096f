"""The side channel of a stub as the event loop has it: frames in and out, arenas kept in step."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import orjson

from inference_runtime.backends.python.wire import frames
from inference_runtime.backends.python.wire.arena import ArenaReader, ArenaWriter, Packer, Unpacker
from inference_runtime.backends.python.wire.frames import Buffer, Kind

# A process that does not read what it is sent, to this amount, is ended.
_MAX_UNREAD = 512 << 20

Received = Callable[[int, Any, Unpacker], None]


class SideChannel(asyncio.Protocol):
    """Event loop only. `broken(reason)` asks for the end of a process that does not keep to the protocol."""

    def __init__(
        self,
        inbound: ArenaReader,
        outbound: ArenaWriter,
        *,
        received: Received,
        broken: Callable[[str], None],
    ) -> None:
        self.inbound = inbound
        self.outbound = outbound
        self._received = received
        self._broken = broken
        self._reader = frames.FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        try:
            for kind, text, payload in self._reader.feed(data):
                if kind == Kind.RELEASED:
                    self.outbound.release(orjson.loads(text))
                else:
                    self._received(kind, read_text(text), Unpacker(payload, self.inbound))
        except Exception as error:  # noqa: BLE001  whatever a model makes its process say, the server lives
            self._broken(f"{type(error).__name__}: {error}")
        if self.inbound.due:
            self.post(Kind.RELEASED, self.inbound.take_released())

    def packer(self) -> Packer:
        return Packer(self.outbound)

    def post(self, kind: Kind, text: Any, payload: Sequence[Buffer] = ()) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return  # whoever waits for an answer is gone
        transport.writelines(frames.frame(kind, orjson.dumps(text), payload))
        if transport.get_write_buffer_size() > _MAX_UNREAD:
            self._broken("it does not read what it is sent")

    def close(self) -> None:
        """Nothing is sent or received any more; tensors that are still on their way to a client stay."""
        if self._transport is not None:
            self._transport.close()
        self.inbound.close()
        self.outbound.close()


def read_text(text: bytes) -> Any:
    """Raises ValueError. Integers beyond 64 bits, which a model may send, are orjson's limit, not JSON's."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)
