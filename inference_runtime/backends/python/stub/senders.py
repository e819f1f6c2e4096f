"""The way a request's answers take: what the model may still send, and what happens when it forgets to."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from inference_runtime.backends.python.stub.errors import TritonError, TritonModelException
from inference_runtime.backends.python.stub.json_text import dumps
from inference_runtime.backends.python.stub.link import PROCESS, Link
from inference_runtime.backends.python.stub.pace import Pace
from inference_runtime.backends.python.stub.responses import InferenceResponse, error_text
from inference_runtime.backends.python.wire.frames import Kind

FINAL = 1
_REFUSED = "Unable to send response. "


class Answers:
    """Of one request. Whoever may still answer it holds this; when nobody does, it ends by itself."""

    __slots__ = ("_lock", "_pace", "closed", "number", "responded", "sender_taken", "wanted")

    def __init__(self, number: int, wanted: Collection[str], pace: Pace | None = None) -> None:
        self._pace = pace
        self.number = number
        self.wanted = wanted
        self.closed = False
        self.responded = False
        self.sender_taken = False
        self._lock = threading.Lock()

    @property
    def paced(self) -> bool:
        return self._pace is not None

    def send(self, response: InferenceResponse | None, flags: int) -> None:
        pace = self._pace
        if pace is not None and not flags and not self.closed:
            pace.wait()  # without the lock: the request may fail meanwhile
        with self._lock:
            self._check(response, flags)
            final = bool(flags & FINAL)
            if PROCESS.decoupled:
                size = post_response(self, response, final=final)
                if pace is not None and not final:
                    pace.sent(size)
            elif response is not None and not self.responded:
                # The client takes one answer: it need not wait for word that it was the last.
                post_response(self, response, final=True)
            # Not before: what could not be written was not sent.
            self.closed = final
            self.responded = True

    def _check(self, response: InferenceResponse | None, flags: int) -> None:
        if flags not in (0, FINAL):
            raise TritonModelException(f"{_REFUSED}Unsupported flag provided.")
        if self.closed:
            raise TritonModelException(f"{_REFUSED}Response sender has been closed.")
        if response is None and not flags:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if PROCESS.decoupled:
            return
        if response is not None and self.responded:
            raise TritonModelException(
                f"{_REFUSED}Non-decoupled model cannot send more than one response."
            )
        if response is None and not self.responded:
            raise TritonModelException(
                f"{_REFUSED}Non-decoupled model cannot send complete final before sending a response."
            )

    def close(self) -> None:
        """Its end goes another way."""
        self.closed = True

    def fail(self, text: str) -> bool:
        """A batch went wrong: True when the request is still to be told, with the batch's answers."""
        with self._lock:
            open_ = self._end()
            if open_ and self.sender_taken:
                # Behind the responses that were sent already, not beside them.
                self._post_error(text)
                return False
            return open_

    def fail_aside(self, text: str) -> None:
        """The same for a batch whose answers have gone."""
        with self._lock:
            if self._end():
                self._post_error(text)

    def _end(self) -> bool:
        """Whether it was open."""
        open_ = not self.closed and (PROCESS.decoupled or not self.responded)
        self.closed = True
        return open_

    def _post_error(self, text: str) -> None:
        PROCESS.link.post_text(Kind.RESPONSE, _error_answer(self.number, text), ())

    def __del__(self) -> None:
        if self.closed or (self.responded and not PROCESS.decoupled):
            return
        warning = {
            "what": "log",
            "level": "WARNING",
            "message": f"a request to '{PROCESS.instance_name}' was dropped without its final response",
            "file": PROCESS.model_file,
            "line": 0,
        }
        PROCESS.link.post_at_last(Kind.TELL, dumps(warning))
        text = f"Model '{PROCESS.model_name}' dropped the request without its final response."
        PROCESS.link.post_at_last(Kind.RESPONSE, _error_answer(self.number, text))


def post_response(answers: Answers, response: InferenceResponse | None, *, final: bool) -> int:
    """Gives the size of its tensors."""
    link: Link = PROCESS.link
    packer = link.packer()
    body = response.written(packer, answers.wanted) if response is not None else "null"
    text = f'{{"id":{answers.number},"final":{"true" if final else "false"},"answer":{body}}}'
    link.post_text(Kind.RESPONSE, text, packer.payload)
    return packer.size


def _error_answer(number: int, text: str) -> str:
    return f'{{"id":{number},"final":true,"answer":{error_text(TritonError(text))}}}'


class InferenceResponseSender:
    def __init__(self, answers: Answers | None) -> None:
        self._answers = answers

    def send(self, response: Any = None, flags: int = 0) -> None:
        if self._answers is None:
            raise TritonModelException(
                f"{_REFUSED}Response sender has no reference to the decoupled state of the model."
            )
        self._answers.send(response, flags)

    def is_cancelled(self) -> bool:
        return self._answers is not None and is_cancelled(self._answers.number)


def is_cancelled(number: int) -> bool:
    return bool(PROCESS.link.ask("cancelled", request=number))
