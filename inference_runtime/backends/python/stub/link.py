"""The stub's two ways to its server: questions on the side channel, answers to them, and the arenas.

One per process. Any thread may send; one daemon thread receives.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from inference_runtime.backends.python.stub.errors import TritonModelException
from inference_runtime.backends.python.stub.json_text import dumps
from inference_runtime.backends.python.wire import frames
from inference_runtime.backends.python.wire.arena import (
    ArenaReader,
    ArenaWriter,
    Packer,
    Unpacker,
)
from inference_runtime.backends.python.wire.frames import Buffer, Kind

Incoming = Callable[[Any, Unpacker], None]


class Link:
    def __init__(self, side: socket.socket, inbound: ArenaReader, outbound: ArenaWriter) -> None:
        self.inbound = inbound
        self.outbound = outbound
        self.handlers: dict[int, Incoming] = {}
        self._side = side
        self._sending = threading.Lock()
        self._left: deque[list[Buffer]] = deque()
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Any]] = {}
        self.handlers[Kind.REPLY] = self._replied
        self.handlers[Kind.RELEASED] = lambda text, _: self.outbound.release(text)
        self.handlers[Kind.TRIM] = lambda text, _: self.outbound.trim()

    def listen(self) -> None:
        threading.Thread(target=self._receive, name="triton-side-channel", daemon=True).start()

    def post(self, kind: Kind, text: Any, payload: Sequence[Buffer] = ()) -> None:
        self.post_text(kind, dumps(text), payload)

    def post_text(self, kind: Kind, text: str, payload: Sequence[Buffer]) -> None:
        """`post` for what is JSON already."""
        self._send(frames.frame(kind, text.encode(), payload))
        if self.inbound.due:
            self.release()

    def release(self) -> None:
        released = self.inbound.take_released()
        if released:
            self._send(frames.frame(Kind.RELEASED, dumps(released).encode()))

    def ask(self, what: str, **details: Any) -> Any:
        """The server's answer; raises TritonModelException with the text of its refusal."""
        return self.ask_later(what, **details).result()

    def ask_later(self, what: str, **details: Any) -> Future[Any]:
        """The answer when it comes; nobody may cancel it."""
        number = next(self._numbers)
        answer: Future[Any] = Future()
        self._asked[number] = answer
        self.post(Kind.ASK, {"id": number, "what": what, **details})
        return answer

    def tell(self, what: str, **details: Any) -> None:
        """Without an answer."""
        self.post(Kind.TELL, {"what": what, **details})

    def packer(self) -> Packer:
        return Packer(self.outbound)

    def post_at_last(self, kind: Kind, text: str) -> None:
        """For finalizers, which may run while this very thread is in the middle of sending."""
        self._left.append(frames.frame(kind, text.encode()))
        self._send_left()

    def _send(self, parts: Sequence[Buffer]) -> None:
        with self._sending:
            self._put(parts)
        self._send_left()

    def _send_left(self) -> None:
        while self._left and self._sending.acquire(blocking=False):
            try:
                while self._left:
                    self._put(self._left.popleft())
            finally:
                self._sending.release()

    def _put(self, parts: Sequence[Buffer]) -> None:
        try:
            frames.send(self._side, parts)
        except OSError:
            os._exit(1)  # the server is gone, and with it everybody who could want anything

    def _replied(self, text: Any, _: Unpacker) -> None:
        answer = self._asked.pop(text["id"], None)
        if answer is None:
            return
        if "error" in text:
            answer.set_exception(TritonModelException(text["error"]))
        else:
            answer.set_result(text["value"])

    def _receive(self) -> None:
        while True:
            try:
                kind, text, payload = frames.receive(self._side)
            except (EOFError, OSError):
                os._exit(1)
            handler = self.handlers.get(kind)
            if handler is not None:
                handler(json.loads(text), Unpacker(payload, self.inbound))


class Process:
    """What this process is: set once, by `__main__`, before the model's first line runs."""

    link: Link
    model_name = ""
    instance_name = ""
    model_file = ""
    version_directory = ""
    decoupled = False
    executing = False  # `execute` has begun for the first time: from then on models may call models
    phase = ""  # initialize, execute, finalize, auto_complete_config


PROCESS = Process()
