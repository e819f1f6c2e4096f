"""A process with a model in it, and everything that waits for it: calls, questions, calls of other models."""

import itertools
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from inference_runtime.backends.base import BackendServices
from inference_runtime.backends.model_call import ModelCall, Reply, Reschedule
from inference_runtime.backends.python.batch_codec import BatchWriter, read_reply
from inference_runtime.backends.python.call_graph import call_graph
from inference_runtime.backends.python.inner_calls import InnerCalls
from inference_runtime.backends.python.loaded_process import LoadedProcess
from inference_runtime.backends.python.model_requests import ModelRequests
from inference_runtime.backends.python.ready_checks import ReadyChecks
from inference_runtime.backends.python.stub_process import Launch, StubProcess
from inference_runtime.backends.python.wire.arena import Unpacker
from inference_runtime.backends.python.wire.frames import Buffer, Kind
from inference_runtime.errors import Internal, RuntimeFault
from inference_runtime.spec.backpressure import Backpressure
from inference_runtime.spec.messages import InferRequest

logger = logging.getLogger(__name__)

_NUMBERS = itertools.count(1)  # of calls, for all processes: an answer that comes late meets nobody


class InstanceProcess(LoadedProcess):
    """`load`, `execute` and `stop` by one thread at a time; `exited(self)` is told on the event loop."""

    def __init__(
        self,
        launch: Launch,
        services: BackendServices,
        model_name: str,
        *,
        exited: Callable[["InstanceProcess"], None],
    ) -> None:
        self._services = services
        self._exited = exited
        self._open: dict[int, ModelCall] = {}
        self._writer = BatchWriter()
        self._asks_ready = False
        self._model_name = model_name
        self._graph = call_graph(services.loop)
        super().__init__(launch, services, received=self._received, exited=self._stub_exited)
        channel = self.stub.channel
        self._inner_calls = InnerCalls(services, channel, stuck=self._stuck, parent=self._request)
        self._requests = ModelRequests(
            services,
            channel,
            owner=self,
            cancelled=self._is_cancelled,
            request=self._request,
            backpressure=self._backpressure,
        )
        self._ready = ReadyChecks(launch.name, services.loop, channel)

    @property
    def open_calls(self) -> int:
        return len(self._open)

    def load(self, start: Any) -> None:
        """Raises the fault of the model; then the process is gone."""
        self._asks_ready = bool(self._begin(start)["asks_ready"])
        self._services.loop.call_soon_threadsafe(self._join)

    def _join(self) -> None:
        if not self.gone.is_set():
            self._graph.join(self._model_name, self)

    def called(self) -> Collection[str]:
        """The models that this one waits for."""
        return self._inner_calls.models()

    def _request(self, number: int) -> InferRequest | None:
        call = self._open.get(number)
        return call.request if call is not None else None

    def _stuck(self, model: str) -> bool:
        return self.executing and self._graph.stuck(model)

    def execute(self, calls: Sequence[ModelCall]) -> list[Reply | Reschedule | None]:
        """None: the answers come, or came, through the call. Raises a fault that is for all of them."""
        numbered = [(next(_NUMBERS), call) for call in calls]
        self._open.update(numbered)
        channel = self.stub.channel
        self.executing = True
        try:
            parts, left_out = self._frame(numbered)
            text, payload = self.stub.exchange(parts)
            channel.outbound.release(text["free"])
            replies = self._replies(numbered, left_out, text["answers"], payload)
        except BaseException:
            self._close(number for number, _ in numbered)
            raise
        finally:
            self.executing = False
            self.executions += 1
        self._close(
            number
            for (number, _), reply in zip(numbered, replies, strict=True)
            if reply is not None
        )
        return replies

    def _frame(
        self, numbered: Sequence[tuple[int, ModelCall]]
    ) -> tuple[list[Buffer], dict[int, RuntimeFault]]:
        channel = self.stub.channel
        try:
            free = channel.inbound.take_released()
            return self._writer.frame(numbered, channel.packer(), free)
        except ValueError:  # its memory was closed in between
            raise self.stub.fault() from None

    def _replies(
        self,
        numbered: Sequence[tuple[int, ModelCall]],
        left_out: dict[int, RuntimeFault],
        answers: Sequence[Any],
        payload: bytearray,
    ) -> list[Reply | Reschedule | None]:
        tensors = Unpacker(payload, self.stub.channel.inbound)
        given = iter(answers)
        try:
            return [
                left_out[number] if number in left_out else read_reply(next(given), tensors)
                for number, _ in numbered
            ]
        except Exception as error:
            logger.error("'%s' gave an answer that is none: %s", self._name, error)
            self.kill()
            raise Internal(f"Stub process '{self._name}' gave an answer that is none.") from error

    def _close(self, numbers: Any) -> None:
        for number in numbers:
            self._open.pop(number, None)

    async def check_ready(self) -> None:
        if self._asks_ready:
            await self._ready.check()

    def trim(self) -> None:
        """Nothing has happened for a while: memory that only waits goes back to the system."""
        channel = self.stub.channel
        channel.outbound.trim()
        channel.post(Kind.RELEASED, channel.inbound.take_released())
        channel.post(Kind.TRIM, {})

    def _received(self, kind: int, text: Any, tensors: Unpacker) -> None:
        if kind == Kind.RESPONSE:
            self._respond(text, tensors)
        elif kind == Kind.CALL:
            self._inner_calls.begin(text, tensors)
        elif kind == Kind.CANCEL_CALL:
            self._inner_calls.cancel(text["id"])
        elif kind == Kind.ASK:
            self._requests.asked(text)
        elif kind == Kind.TELL:
            self._requests.told(text)
        elif kind == Kind.READY_ANSWER:
            self._ready.answered(text)
        else:
            raise ValueError(f"a frame of kind {kind}")

    def _respond(self, text: Any, tensors: Unpacker) -> None:
        number, final = text["id"], text["final"]
        call = self._open.pop(number, None) if final else self._open.get(number)
        if call is None:
            return
        answer = text["answer"]
        reply = read_reply(answer, tensors) if answer is not None else None
        if isinstance(reply, Reschedule):
            raise ValueError("a response can not ask for another execution")
        call.send(reply, final=final)

    def _is_cancelled(self, number: int) -> bool:
        """Of a request that nobody waits for any more, as of one that was answered: stop."""
        call = self._open.get(number)
        return call is None or call.cancelled

    def _backpressure(self, number: int) -> Backpressure | None:
        request = self._request(number)
        return request.backpressure if request is not None else None

    def _stub_exited(self, stub: StubProcess) -> None:
        self._graph.leave(self._model_name, self)
        fault = stub.fault()
        open_calls = list(self._open.values())
        self._open.clear()
        for call in open_calls:
            call.send(fault, final=True)
        self._inner_calls.close()
        self._requests.close()
        self._ready.close()
        self._exited(self)
