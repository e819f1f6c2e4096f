"""A fault that is not its whole batch's."""

from inference_runtime.errors import InvalidArgument


class RequestFault(InvalidArgument):
    """One request of a batch is at fault, and the backend can not say which: each is to be executed alone."""
