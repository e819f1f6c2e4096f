"""How code inside the server asks for an inference: ensembles, and models that call models."""

from collections.abc import Callable

from inference_runtime.spec.messages import InferRequest


class InferencePort:
    """Made before there is a router, bound when there is one. Both calls on the event loop only."""

    __slots__ = ("cancel", "infer")

    def __init__(self) -> None:
        self.infer: Callable[[InferRequest], None] = _unbound
        self.cancel: Callable[[InferRequest], None] = _unbound

    def bind(
        self, infer: Callable[[InferRequest], None], cancel: Callable[[InferRequest], None]
    ) -> None:
        self.infer = infer
        self.cancel = cancel


def _unbound(request: InferRequest) -> None:
    raise RuntimeError("no router is bound to the inference port yet")
