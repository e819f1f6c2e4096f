"""Faults of the runtime. Each carries a code; transports own the mapping to their status.

RuntimeFault
├── InvalidArgument    the request or config cannot be meant
├── NotFound           no such model, version, route
├── AlreadyExists
│   └── Conflict       a newer traffic table is in force (HTTP 409)
├── Unavailable        not ready, draining, queue full: try again
│   └── NotReady       the model's own check says so
├── DeadlineExceeded   waited longer than allowed
├── Cancelled          the caller went away
├── Unsupported        understood, not built or not possible here
│   └── SingleAnswerOnly   the caller takes one answer, the model may give many
├── Denied             a restricted call without its header
└── Internal           ours, or the backend's
"""

import enum


class FaultCode(enum.Enum):
    UNKNOWN = "unknown"
    INTERNAL = "internal"
    NOT_FOUND = "not_found"
    INVALID_ARG = "invalid_arg"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    ALREADY_EXISTS = "already_exists"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    DENIED = "denied"


class FailureReason(enum.Enum):
    """Why a request did not succeed: the `reason` label of nv_inference_request_failure."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"
    TIMEOUT = "TIMEOUT"  # ours: Triton counts these as REJECTED
    CLIENT = "CLIENT"  # ours: Triton does not count these at all


class RuntimeFault(Exception):
    """`text` goes to the client as it is: Triton's wording where Triton has one."""

    code = FaultCode.UNKNOWN
    reason = FailureReason.OTHER
    refused = False  # by another process, before any scheduler took the request

    def __init__(self, text: str, *, reason: FailureReason | None = None) -> None:
        super().__init__(text)
        self.text = text
        if reason is not None:
            self.reason = reason


class InvalidArgument(RuntimeFault):
    code = FaultCode.INVALID_ARG
    reason = FailureReason.CLIENT


class NotFound(RuntimeFault):
    code = FaultCode.NOT_FOUND
    reason = FailureReason.CLIENT


class AlreadyExists(RuntimeFault):
    code = FaultCode.ALREADY_EXISTS
    reason = FailureReason.CLIENT


class Conflict(AlreadyExists):
    pass


class Unavailable(RuntimeFault):
    code = FaultCode.UNAVAILABLE
    reason = FailureReason.REJECTED


class NotReady(Unavailable):
    pass


class DeadlineExceeded(RuntimeFault):
    code = FaultCode.UNAVAILABLE  # Triton answers a queue timeout with UNAVAILABLE
    reason = FailureReason.TIMEOUT


class Cancelled(RuntimeFault):
    code = FaultCode.CANCELLED
    reason = FailureReason.CANCELED


class Unsupported(RuntimeFault):
    code = FaultCode.UNSUPPORTED
    reason = FailureReason.CLIENT


class SingleAnswerOnly(Unsupported):
    """A decoupled model asked where one answer is taken; front ends put their own name into the text."""

    def __init__(self, caller: str = "This call") -> None:
        super().__init__(f"{caller} doesn't support models with decoupled transaction policy")


class Denied(RuntimeFault):
    code = FaultCode.DENIED
    reason = FailureReason.CLIENT


class Internal(RuntimeFault):
    code = FaultCode.INTERNAL
    reason = FailureReason.BACKEND
