"""The process that another backend runs in: `python -m inference_runtime.backends.isolation.host <JSON of descriptors>`.

One question and one answer at a time on the channel of executions; the side channel carries the word of
released memory only.
"""

import base64
import contextlib
import faulthandler
import json
import logging
import os
import pickle
import socket
import sys
import threading
from typing import Any

from inference_runtime.backends.base import Array
from inference_runtime.backends.isolation.arrays import pack, unpack
from inference_runtime.backends.isolation.faults import fault_text
from inference_runtime.backends.python.stub import limits
from inference_runtime.backends.python.stub.heartbeat import signs_of_life
from inference_runtime.backends.python.wire import frames
from inference_runtime.backends.python.wire.arena import (
    ArenaFull,
    ArenaReader,
    ArenaWriter,
    Packer,
    Unpacker,
)
from inference_runtime.backends.python.wire.frames import Kind
from inference_runtime.backends.registry import backend_named
from inference_runtime.errors import Internal


class Host:
    def __init__(
        self, executions: socket.socket, inbound: ArenaReader, outbound: ArenaWriter
    ) -> None:
        self._executions = executions
        self._inbound = inbound
        self._outbound = outbound
        self._sending = threading.Lock()
        self._backend: Any = None

    def serve(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # the server is gone
            while True:
                kind, text, payload = frames.receive(self._executions)
                if kind == Kind.EXECUTE:
                    self._execute(json.loads(text), payload)
                elif kind == Kind.START:
                    self._answer(*self._loaded(json.loads(text)))
                elif kind == Kind.COMPLETE_CONFIG:
                    self._answer(*self._described(json.loads(text)))
                else:
                    self._backend.unload()
                    return

    def _loaded(self, start: Any) -> tuple[Kind, Any]:
        # The server wrote it, for its own child: nothing that comes back is read this way.
        given = pickle.loads(base64.b64decode(start["given"]))
        with signs_of_life(self._answer):
            try:
                self._backend = backend_named(start["backend"])(given.options, given.services)
                self._backend.load(given.artifact, given.config, given.instance)
            except Exception as error:  # noqa: BLE001  the server says why it did not load
                return Kind.FAILED, fault_text(error)
        return Kind.STARTED, {}

    def _described(self, start: Any) -> tuple[Kind, Any]:
        given = pickle.loads(base64.b64decode(start["given"]))
        with signs_of_life(self._answer):
            try:
                found = backend_named(start["backend"]).describe(
                    given.artifact, given.config, given.options
                )
            except Exception as error:  # noqa: BLE001  the server says why it did not load
                return Kind.FAILED, fault_text(error)
        if found is None:
            return Kind.STARTED, {"description": None}
        ports = [
            [[port.name, port.datatype, port.shape, port.optional] for port in kind]
            for kind in (found.inputs, found.outputs)
        ]
        return Kind.STARTED, {"description": ports}

    def _execute(self, text: Any, payload: bytearray) -> None:
        self._outbound.release(text["free"])
        packer = Packer(self._outbound)
        answer: dict[str, Any]
        try:
            outputs = self._outputs(text, Unpacker(payload, self._inbound))
            answer = {"outputs": [pack(each, packer) for each in outputs]}
        except ArenaFull as full:
            packer.undo((0, 0))
            answer = {"fault": fault_text(Internal(f"an output does not fit: {full}"))}
        except Exception as error:  # noqa: BLE001  a failed execution is its batch's answer
            answer = {"fault": fault_text(error)}
        answer["free"] = self._inbound.take_released()
        self._answer(Kind.DONE, answer, packer.payload)

    def _outputs(self, text: Any, tensors: Unpacker) -> list[Array]:
        inputs = [None if entry is None else unpack(entry, tensors) for entry in text["inputs"]]
        outputs: list[Array] = self._backend.execute(inputs, text["outputs"])
        return outputs

    def _answer(self, kind: Kind, text: Any, payload: Any = ()) -> None:
        with self._sending:
            frames.send(self._executions, frames.frame(kind, json.dumps(text).encode(), payload))


def main() -> None:
    faulthandler.enable()
    logging.basicConfig(level=logging.WARNING)
    given = json.loads(sys.argv[1])
    limits.die_with(given["lifeline"])
    limits.be_the_first_to_go()
    limits.leave_signals_to_the_server()
    size = given["arena_size"]
    inbound, outbound = ArenaReader(given["inbound"], size), ArenaWriter(given["outbound"], size)
    for fd in (given["inbound"], given["outbound"], given["side"]):
        os.close(fd)
    limits.limit(given["limits"])
    Host(socket.socket(fileno=given["executions"]), inbound, outbound).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of the backend's library are nobody's concern any more


if __name__ == "__main__":
    main()
