"""A request of a sequence: what it must say, what its filler and its next step look like. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from inference_runtime.errors import DeadlineExceeded, InvalidArgument
from inference_runtime.spec.messages import Answer, InferRequest, RequestHead
from inference_runtime.spec.sequence_config import SequenceBatching


def request_fault(
    request: InferRequest, sequences: SequenceBatching, model: str
) -> InvalidArgument | None:
    """Why it can not be part of any sequence, in Triton's words."""
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
    control = sequences.correlation
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


class IterativeIds:
    """Every request is a sequence of its own: the server names it, whatever its client said."""

    def __init__(self, sequences: SequenceBatching) -> None:
        control = sequences.correlation
        self._text = control is not None and control.datatype == "BYTES"
        self._numbers: Iterator[int] = count(1)

    def first_step(self, head: RequestHead) -> RequestHead:
        number = next(self._numbers)
        id_: int | str = str(number) if self._text else number
        return replace(head, sequence_id=id_, sequence_start=True, sequence_end=False)


def step_on(request: InferRequest) -> None:
    """Makes it the next step of the sequence that it has begun."""
    if request.head.sequence_start:
        request.head = replace(request.head, sequence_start=False)
