"""How code inside the server asks for an inference: ensembles, and models that call models."""

from collections.abc import Callable

from inference_runtime.spec.messages import InferRequest


class InferencePort:
    """Made before there is a router, bound when there is one. All calls on the event loop only.

    `trace_context`: JSON that carries the span of a request's model, None where there is none.
    """

    __slots__ = ("cancel", "infer", "trace_context")

    def __init__(self) -> None:
        self.infer: Callable[[InferRequest], None] = _unbound
        self.cancel: Callable[[InferRequest], None] = _unbound
        self.trace_context: Callable[[InferRequest], str | None] = lambda request: None

    def bind(
        self,
        infer: Callable[[InferRequest], None],
        cancel: Callable[[InferRequest], None],
        trace_context: Callable[[InferRequest], str | None] = lambda request: None,
    ) -> None:
        self.infer = infer
        self.cancel = cancel
        self.trace_context = trace_context


def _unbound(request: InferRequest) -> None:
    raise RuntimeError("no router is bound to the inference port yet")
