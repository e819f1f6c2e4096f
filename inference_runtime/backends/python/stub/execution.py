"""One batch: the requests as the model sees them, its `execute`, and what becomes of what that returns."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from inference_runtime.backends.python.stub import coroutines
from inference_runtime.backends.python.stub.errors import TritonError
from inference_runtime.backends.python.stub.failures import failure_text
from inference_runtime.backends.python.stub.link import PROCESS
from inference_runtime.backends.python.stub.pace import Pace
from inference_runtime.backends.python.stub.requests import InferenceRequest
from inference_runtime.backends.python.stub.responses import InferenceResponse, error_text
from inference_runtime.backends.python.stub.senders import Answers
from inference_runtime.backends.python.stub.tensors import Tensor
from inference_runtime.backends.python.wire.arena import Packer, Unpacker

_LATER = "0"  # the answer comes, or came, through a response sender
_RESCHEDULE = "1"


class _Refused(Exception):
    """What the model returned can not be used; the text is for the client."""


class BatchExecution:
    def __init__(self, model: Any) -> None:
        self._model = model
        self._heads: dict[int, Any] = {}

    def run(self, text: Any, tensors: Unpacker, packer: Packer) -> str:
        """The answers as a JSON list. No exception gets out, whatever the model does."""
        if text["forget"]:
            self._heads.clear()
        self._heads.update(dict(text["heads"]))
        requests = [self._request(call, tensors) for call in text["calls"]]
        try:
            answers = self._answers(requests, self._execute(requests), packer)
        except _Refused as refusal:
            answers = _all_failed(requests, str(refusal))
        except BaseException as error:  # noqa: BLE001  a model may raise what it likes
            answers = _all_failed(requests, failure_text(error))
        return "[" + ",".join(answers) + "]"

    def _request(self, call: Any, tensors: Unpacker) -> InferenceRequest:
        number, head_number, id_, places, *portion = call
        head = self._heads[head_number]
        inputs = [
            Tensor.received(name, datatype, shape, tensors.take(place))
            for (name, datatype, shape), place in zip(head["inputs"], places, strict=True)
        ]
        pace = Pace(number, *portion) if portion else None
        request: InferenceRequest = InferenceRequest.received(
            head, id_, inputs, Answers(number, head["outputs"], pace)
        )
        return request

    def _execute(self, requests: list[InferenceRequest]) -> Any:
        execute = getattr(self._model, "execute", None)
        if execute is None:
            raise _Refused(
                f"Python model {PROCESS.model_file} does not implement `execute` method."
            )
        returned = execute(list(requests))
        if not asyncio.iscoroutine(returned):
            return returned
        if not PROCESS.decoupled:
            return coroutines.value(returned)
        # The next batch may start while this one is still at work.
        answers = [request.answers for request in requests]
        holdable = any(each is not None and each.paced for each in answers)
        future = coroutines.start(returned, holdable=holdable)
        future.add_done_callback(lambda future: _ended(future, answers))
        return None

    def _answers(
        self, requests: list[InferenceRequest], returned: Any, packer: Packer
    ) -> list[str]:
        if PROCESS.decoupled and returned is not None:
            raise _Refused(
                f"Python model '{PROCESS.instance_name}' is using the decoupled mode and the execute "
                "function must return None."
            )
        if returned is None:
            returned = [None] * len(requests)
        _check(requests, returned)
        return [
            _answer(request, response, packer)
            for request, response in zip(requests, returned, strict=True)
        ]


def _check(requests: list[InferenceRequest], returned: Any) -> None:
    if not isinstance(returned, list):
        raise _Refused(f"Expected a list in the execute return, found type '{type(returned)}'.")
    if len(returned) != len(requests):
        raise _Refused(
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            f"InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) size "
            f"is:{len(returned)}\n"
        )
    for request, response in zip(requests, returned, strict=True):
        if response is None:
            continue
        if request.rescheduled:
            raise _Refused(
                "Expected a None object in the execute function return list for reschduled request, "
                f"found type '{type(response)}'."
            )
        if not isinstance(response, InferenceResponse):
            raise _Refused(
                "Expected an 'InferenceResponse' object in the execute function return list, found "
                f"type '{type(response)}'."
            )


def _answer(request: InferenceRequest, response: InferenceResponse | None, packer: Packer) -> str:
    answers = request.answers
    assert answers is not None
    if request.rescheduled:
        answers.close()
        return _RESCHEDULE
    if response is None or answers.responded:
        return _LATER
    try:
        text = response.written(packer, answers.wanted)
    except BaseException as error:  # noqa: BLE001  the other answers of the batch are good
        text = error_text(TritonError(_message(failure_text(error))))
    answers.close()
    return text


def _message(text: str) -> str:
    return f"Failed to process the request(s) for model '{PROCESS.instance_name}', message: {text}"


def _all_failed(requests: list[InferenceRequest], text: str) -> list[str]:
    message = _message(text)
    error = error_text(TritonError(message))
    return [
        error if request.answers is not None and request.answers.fail(message) else _LATER
        for request in requests
    ]


def _ended(future: Future[Any], answers: list[Answers | None]) -> None:
    """A coroutine of a decoupled model: what it has not answered when it fails nobody else will."""
    error = future.exception() if not future.cancelled() else asyncio.CancelledError()
    if error is None:
        return
    text = failure_text(error)
    PROCESS.link.tell(
        "log",
        level="ERROR",
        message=f"execute of '{PROCESS.instance_name}' failed: {text}",
        file=PROCESS.model_file,
        line=0,
    )
    for each in answers:
        if each is not None:
            each.fail_aside(_message(text))
