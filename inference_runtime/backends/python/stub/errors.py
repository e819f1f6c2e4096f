"""What goes wrong in a model, as the model says it and as it is told."""


class TritonModelException(RuntimeError):
    """The model asked for something that can not be."""


class TritonError:
    """The error of one response; `code` is the name of one of the codes."""

    UNKNOWN = "UNKNOWN"
    INTERNAL = "INTERNAL"
    NOT_FOUND = "NOT_FOUND"
    INVALID_ARG = "INVALID_ARG"
    UNAVAILABLE = "UNAVAILABLE"
    UNSUPPORTED = "UNSUPPORTED"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    CANCELLED = "CANCELLED"

    __slots__ = ("_code", "_message")

    def __init__(self, message: str, code: str = "INTERNAL") -> None:
        self._message = str(message)
        self._code = str(code)

    def message(self) -> str:
        return self._message

    def code(self) -> str:
        return self._code

    def __repr__(self) -> str:
        return f"TritonError({self._message!r}, {self._code})"
