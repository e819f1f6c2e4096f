"""The regions of one request: inputs are read before it is sent off, outputs written before it is answered.

Both are copies, made once (ADR 0010). What is large is copied on another thread, except for requests of
a stream, which must not overtake each other.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from inference_runtime.errors import Cancelled, Internal, InvalidArgument, RuntimeFault
from inference_runtime.shared_memory.regions import Region, Regions
from inference_runtime.spec.messages import Answer, Bytes, Done, InferRequest, InferResponse
from inference_runtime.spec.region_span import RegionPlan, RegionSpan

_log = logging.getLogger(__name__)

# Copying this much stops the event loop for longer than others should wait.
_HEAVY: Final = 1 << 20

_Place = tuple[Region, RegionSpan]
T = TypeVar("T")


class RegionUse:
    """Holds what the plan names from here until the request is settled. Raises RuntimeFault.

    The request's `done` is the one here, which passes on to the front end's. `in_turn`: the request must
    not be overtaken.
    """

    __slots__ = (
        "_copied", "_done", "_held", "_in_turn", "_inputs", "_outputs", "_refused", "_regions",
    )  # fmt: skip

    def __init__(
        self,
        regions: Regions,
        plan: RegionPlan,
        done: Done,
        *,
        local: bool,
        in_turn: bool = False,
        refused: Callable[[RuntimeFault], None] = lambda fault: None,
    ) -> None:
        """`refused` hears of a request that goes no further than here because of its regions."""
        if regions.options.enabled:
            regions.check_client(local=local)
        self._regions = regions
        self._done = done
        self._in_turn = in_turn
        self._refused = refused
        self._inputs = {index: _place(regions, span) for index, span in plan.inputs.items()}
        self._outputs = {name: _place(regions, span) for name, span in plan.outputs.items()}
        places = (*self._inputs.values(), *self._outputs.values())
        self._held = {region for region, _ in places}
        self._copied = sum(span.byte_size for span in plan.inputs.values())
        regions.acquire(self._held, self._copied)

    def start(self, request: InferRequest, infer: Callable[[InferRequest], None]) -> None:
        """Calls `infer` with all data in place, or `done` with the fault. Never raises."""
        data = request.data
        self._run(lambda: self._read(data), self._copied, partial(self._go, request, infer))

    def done(self, request: InferRequest, answer: Answer) -> None:
        if isinstance(answer, InferResponse) and self._outputs and not request.cancelled:
            size = sum(map(len, answer.data))
            self._run(lambda: self._write(answer), size, partial(self._end, request))
        else:
            self._end(request, answer)

    def partial(self, then: Done) -> Done:
        """For `request.partial`. Each answer overwrites the one before it, as the client asked."""

        def passed_on(request: InferRequest, answer: Answer) -> None:
            if isinstance(answer, InferResponse) and self._outputs:
                response = answer
                answer = _attempt(lambda: self._write(response))
            then(request, answer)

        return passed_on

    def _run(
        self, work: Callable[[], T], size: int, then: Callable[[T | RuntimeFault], None]
    ) -> None:
        if size <= _HEAVY or self._in_turn:
            then(_attempt(work))
            return

        def finish(done: "asyncio.Future[T | RuntimeFault]") -> None:
            if not done.cancelled():
                then(done.result())

        try:
            future = asyncio.get_running_loop().run_in_executor(None, _attempt, work)
        except RuntimeError:  # the system gives no more threads now
            then(_attempt(work))
        else:
            future.add_done_callback(finish)

    def _go(
        self,
        request: InferRequest,
        infer: Callable[[InferRequest], None],
        data: Sequence[Bytes] | RuntimeFault,
    ) -> None:
        if isinstance(data, RuntimeFault):
            self._refused(data)
            self._end(request, data)
        elif request.cancelled:  # the client left while its data was read
            self._end(request, Cancelled("the client has left"))
        else:
            request.data = data
            infer(request)

    def _end(self, request: InferRequest, answer: Answer) -> None:
        self._regions.release(self._held, self._copied)
        self._done(request, answer)

    def _read(self, data: Sequence[Bytes]) -> Sequence[Bytes]:
        whole = list(data)
        for index, (region, span) in self._inputs.items():
            whole[index] = region.memory.read(span.offset, span.byte_size)
        return whole

    def _write(self, answer: InferResponse) -> InferResponse:
        """The answer without what now lies in regions. Nothing is written where not all would fit."""
        left: list[Bytes] = list(answer.data)
        due: list[tuple[_Place, Bytes]] = []
        for index, output in enumerate(answer.head.outputs):
            place = self._outputs.get(output.name)
            if place is None:
                continue
            have, need = place[1].byte_size, len(left[index])
            if need > have:
                raise InvalidArgument(
                    f"shared memory size specified with the request for output '{output.name}' "
                    f"({have} bytes) should be at least {need} bytes to hold the results"
                )
            due.append((place, left[index]))
            left[index] = b""
        for (region, span), data in due:
            region.memory.write(span.offset, data)
        return InferResponse(answer.head, left)


def _place(regions: Regions, span: RegionSpan) -> _Place:
    region = regions.find(span.region)
    region.check(span)
    return region, span


def _attempt(work: Callable[[], T]) -> T | RuntimeFault:
    try:
        return work()
    except RuntimeFault as fault:
        return fault
    except Exception:  # noqa: BLE001 - callers are callbacks of the event loop
        _log.exception("shared memory could not be copied")
        return Internal("the shared memory of the request could not be copied")
