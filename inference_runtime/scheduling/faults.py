"""What a scheduler says when it gives up a request, in Triton's words where it has some."""

from inference_runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    FaultCode,
    InvalidArgument,
    Unavailable,
)
from inference_runtime.spec.messages import InferRequest


def queue_full(request: InferRequest) -> Unavailable:
    return Unavailable(f"{_prefix(request)}Exceeds maximum queue size")


def stopping(request: InferRequest) -> Unavailable:
    return Unavailable(
        f"{_prefix(request)}Server is stopping, scheduler for model has stopped accepting new "
        "inference requests"
    )


def queue_timeout() -> DeadlineExceeded:
    return DeadlineExceeded("Request timeout expired")


def deadline_passed() -> DeadlineExceeded:
    """The client's own deadline, which gRPC has a status for; a queue timeout is UNAVAILABLE."""
    fault = DeadlineExceeded("Deadline Exceeded")
    fault.code = FaultCode.DEADLINE
    return fault


def cancelled() -> Cancelled:
    return Cancelled("")


def too_slow(most: int) -> Unavailable:
    return Unavailable(
        f"more than {most} responses of a decoupled step wait for the steps behind it, which do not "
        "keep up"
    )


def deadlock(request: InferRequest) -> InvalidArgument:
    return InvalidArgument(
        f"{_prefix(request)}unexpected deadlock, at least one output is not set while no more "
        "ensemble steps can be made"
    )


def _prefix(request: InferRequest) -> str:
    return f"[request id: {request.id or '<id_unknown>'}] "
