"""What makes two requests to one load of a version ask for the same: a digest of what changes the answer. Pure."""

import hashlib
from collections.abc import Sequence
from typing import Any

from inference_runtime.spec.messages import Bytes
from inference_runtime.spec.request_plan import RequestPlan

_MAX_PLANS = 2048


class RequestDigests:
    """Safe to share between threads.

    Inputs (which, their shapes, their bytes) and the outputs asked for. Parameters, id and priority are no part.

    SHA-256, because whoever can make two requests collide can make others get a wrong answer; where the
    processor helps it is also the fastest of the strong ones.
    """

    def __init__(self) -> None:
        self._begun: dict[RequestPlan, Any] = {}

    def of(self, plan: RequestPlan, data: Sequence[Bytes]) -> bytes:
        state = self._begin(plan).copy()
        for index in plan.sources:
            if index >= 0:
                part = data[index]
                state.update(len(part).to_bytes(8, "little"))
                state.update(part)
        digest: bytes = state.digest()
        return digest

    def _begin(self, plan: RequestPlan) -> Any:
        begun = self._begun.get(plan)
        if begun is None:
            given = [index >= 0 for index in plan.sources]
            if len(self._begun) >= _MAX_PLANS:
                self._begun = {}
            begun = self._begun[plan] = hashlib.sha256(
                repr((given, plan.shapes, plan.outputs)).encode()
            )
        return begun
