"""Lines of a model in the server's log, with the file and line of the model that wrote them."""

import sys

from inference_runtime.backends.python.stub.link import PROCESS


class Logger:
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    VERBOSE = "VERBOSE"

    @staticmethod
    def log(message: str, level: str = "INFO") -> None:
        _log(message, level)

    @staticmethod
    def log_info(message: str) -> None:
        _log(message, Logger.INFO)

    @staticmethod
    def log_warn(message: str) -> None:
        _log(message, Logger.WARNING)

    @staticmethod
    def log_error(message: str) -> None:
        _log(message, Logger.ERROR)

    @staticmethod
    def log_verbose(message: str) -> None:
        _log(message, Logger.VERBOSE)


def _log(message: str, level: str) -> None:
    caller = sys._getframe(2)
    PROCESS.link.tell(
        "log",
        level=level,
        message=str(message),
        file=caller.f_code.co_filename,
        line=caller.f_lineno,
    )
