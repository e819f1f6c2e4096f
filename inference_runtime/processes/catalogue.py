"""What a front-end process knows of the models without asking each time: configs, metadata, unit headers.

The executor counts its changes in the shared page. Whoever sees the count it knows may use what it
knows; else it asks, and waits for the answer, so that nobody is served by what was true before.
"""

import socket
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

import orjson

from inference_runtime import pb
from inference_runtime.errors import RuntimeFault
from inference_runtime.frontends.core_port import InferenceCore
from inference_runtime.processes import messages
from inference_runtime.protocol.memo import Memo
from inference_runtime.spec.messages import RequestHead

CHANGES: Final = 0  # where in the shared page they are counted
_SIZES: Final = struct.Struct("<BI")
_ENTRIES: Final = 1024
_BYTES: Final = 64 << 20
CONFIG, METADATA, UNITS = "config", "metadata", "units"


class Catalogue:
    """Blocks while it asks: a front end has nothing to do without its executor. `lost`: nobody answers."""

    def __init__(
        self, page: "memoryview[int]", asking: socket.socket, *, lost: Callable[[], NoReturn]
    ) -> None:
        asking.setblocking(True)
        self._lost = lost
        self._page = page
        self._asking = asking
        self._seen = -1
        self._units: dict[str, str] = {}
        self._known: Memo[tuple[str, str, str], Any] = Memo(
            limit_count=_ENTRIES, limit_bytes=_BYTES
        )

    def unit_header(self, model_name: str) -> str:
        if self._page[CHANGES] != self._seen:
            self._renew()
        return self._units.get(model_name, "")

    def config(self, name: str, version: str) -> pb.ModelConfig:
        return self._look_up(CONFIG, name, version, pb.ModelConfig)

    def metadata(self, name: str, version: str) -> pb.ModelMetadataResponse:
        return self._look_up(METADATA, name, version, pb.ModelMetadataResponse)

    def decoupled(self, head: RequestHead) -> bool:
        """Of the model by this name; the arms of a traffic table may be others."""
        try:
            config = self.config(head.model_name, head.version)
        except RuntimeFault:
            return False
        return bool(config.model_transaction_policy.decoupled)

    def _look_up(self, kind: str, name: str, version: str, message: Any) -> Any:
        if self._page[CHANGES] != self._seen:
            self._renew()
        key = (kind, name, version)
        known = self._known.get(key)
        if known is None:
            text = self._ask(kind, name, version)
            known = message.FromString(text)
            self._known.put(key, known, len(text))
        return known

    def _renew(self) -> None:
        # The count first: a change that comes now is seen the next time.
        seen = self._page[CHANGES]
        self._known.clear()
        self._units = orjson.loads(self._ask(UNITS, "", ""))
        self._seen = seen

    def _ask(self, kind: str, name: str, version: str) -> bytes:
        try:
            self._asking.sendall(orjson.dumps([kind, name, version]) + b"\n")
            failed, size = _SIZES.unpack(self._receive(_SIZES.size))
            text = self._receive(size)
        except OSError:
            self._lost()
        if failed:
            raise messages.read_fault(orjson.loads(text))
        return text

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._asking.recv_into(view)
            if not count:
                raise ConnectionResetError("the executor is gone")
            view = view[count:]
        return bytes(data)


class Answers:
    """The executor's side: answers questions as they come in. `units`: all unit headers, by model."""

    def __init__(self, core: InferenceCore, units: Any) -> None:
        self._core = core
        self._units = units
        self._unread = b""

    def feed(self, data: bytes) -> bytes:
        """What is to be sent back."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        return b"".join(self._answer(line) for line in lines)

    def _answer(self, line: bytes) -> bytes:
        kind, name, version = orjson.loads(line)
        try:
            if kind == UNITS:
                text = orjson.dumps(self._units())
            elif kind == CONFIG:
                text = self._core.model_config(name, version).SerializeToString()
            else:
                text = self._core.model_metadata(name, version).SerializeToString()
        except RuntimeFault as fault:
            text = orjson.dumps(messages.fault_value(fault))
            return _SIZES.pack(1, len(text)) + text
        return _SIZES.pack(0, len(text)) + text
