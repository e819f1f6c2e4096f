"""A request of a sequence: what it must say, what its filler and its next step look like. Pure."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from itertools import count

from inference_runtime.errors import DeadlineExceeded, InvalidArgument, RuntimeFault
from inference_runtime.scheduling.faults import cancelled, deadline_passed
from inference_runtime.scheduling.sequence_table import LiveSequence
from inference_runtime.spec.messages import Answer, InferRequest, RequestHead
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.spec.sequence_config import ControlSpec, SequenceBatching

_MAX_PLANS = 1024


def request_fault(
    request: InferRequest, control: ControlSpec | None, model: str
) -> InvalidArgument | None:
    """Why it can not be part of any sequence, in Triton's words. `control` is what gets the id."""
    if request.plan.batch_size > 1:
        return InvalidArgument(
            f"inference request to model '{model}' must specify batch-size 1 due to requirements of "
            "sequence batcher"
        )
    id_ = request.head.sequence_id
    if not id_:
        return InvalidArgument(
            f"inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
        )
    if control is None or isinstance(id_, str) == (control.datatype == "BYTES"):
        return None
    given = "BYTES" if isinstance(id_, str) else "UINT64"
    return InvalidArgument(
        f"[request id: {request.id or '<id_unknown>'}] sequence batching control '{control.name}' "
        f"data-type is '{given}', but model '{model}' expects '{control.datatype}'"
    )


def start_missing(request: InferRequest, model: str) -> InvalidArgument:
    return InvalidArgument(
        f"inference request for sequence {request.head.sequence_id} to model '{model}' must specify "
        "the START flag on the first request of the sequence"
    )


def sequence_expired() -> DeadlineExceeded:
    return DeadlineExceeded("timeout of the corresponding sequence has been expired")


def filler_of(request: InferRequest) -> InferRequest:
    """The same data, of no sequence and for nobody."""
    head = replace(request.head, sequence_id=0, sequence_start=False, sequence_end=False)
    filler = InferRequest(head, request.data, _nobody, None, request.received_ns)
    filler.plan = request.plan
    filler.version = request.version
    return filler


def _nobody(request: InferRequest, answer: Answer) -> None:
    """A filler's result is thrown away."""


def lateness(sequence: LiveSequence, now_ns: int) -> Callable[[InferRequest], RuntimeFault] | None:
    """How its requests end, when one of those that wait has waited too long."""
    if sequence.expires_ns and sequence.expires_ns <= now_ns:
        return lambda _: sequence_expired()

    def late(request: InferRequest) -> bool:
        return 0 < request.deadline_ns <= now_ns

    if not any(map(late, sequence.queue)):
        return None
    # A client that has given up one step can not go on with the next.
    return lambda request: deadline_passed() if late(request) else cancelled()


def next_limit(sequence: LiveSequence) -> int:
    """When it has to be looked at again; 0: never."""
    limits = [request.deadline_ns for request in sequence.queue if request.deadline_ns]
    if sequence.expires_ns:
        limits.append(sequence.expires_ns)
    return min(limits, default=0)


class Iterations:
    """Every request is a sequence of its own: the server names it, whatever its client said.

    While it lasts, a request has a head of ours; its client's comes back before it is answered.
    """

    def __init__(self, sequences: SequenceBatching) -> None:
        control = sequences.correlation
        self._text = control is not None and control.datatype == "BYTES"
        self._numbers: Iterator[int] = count(1)
        self._own_heads: dict[InferRequest, RequestHead] = {}

    def begin(self, request: InferRequest) -> None:
        self._own_heads[request] = request.head
        number = next(self._numbers)
        id_: int | str = str(number) if self._text else number
        request.head = replace(
            request.head, sequence_id=id_, sequence_start=True, sequence_end=False
        )

    def end(self, request: InferRequest) -> None:
        request.head = self._own_heads.pop(request)


class EqualPlans:
    """One plan for all that are equal: each sequence has heads, and so plans, of its own, and batches
    of one plan are joined and split without looking at each request."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, RequestPlan] = {}

    def one_for(self, plan: RequestPlan) -> RequestPlan:
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        key = (plan.sources, plan.shapes, plan.byte_sizes, plan.outputs)
        return self._plans.setdefault(key, plan)


def step_on(request: InferRequest) -> None:
    """Makes it the next step of the sequence that it has begun."""
    if request.head.sequence_start:
        request.head = replace(request.head, sequence_start=False)
