"""One inference from a version's page, on the runtime where the version runs."""

import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.benchmarks.request_inputs import given
from webapp.catalog.models import ModelVersion
from webapp.core.errors import Conflict, InvalidInput, Unavailable
from webapp.runtime_client.errors import RuntimeRefused, RuntimeUnreachable
from webapp.runtime_client.types import Tensor, VersionStatistics
from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment
from webapp.serving.selectors import client_for

_SHOWN_VALUES = 12
_TOP = 5
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class OutputView:
    name: str
    datatype: str
    shape: list[int]
    values: str  # the first few, as text
    more: int
    top: list[tuple[int, float]]  # for one row of scores: the highest, by index


@dataclass(frozen=True, slots=True)
class Trial:
    version: int
    runtime: str
    outputs: list[OutputView]
    total_ms: float
    queue_ms: float | None
    compute_ms: float | None


def try_version(*, version: ModelVersion, text: str, actor: User) -> Trial:
    """`text` is the `inputs` of a v2 request as JSON. Raises InvalidInput, Conflict, Unavailable."""
    require(actor=actor, action=Action.VIEW)
    tensors = given(_parsed(text))
    deployment = (
        Deployment.objects.filter(version=version, state=DeploymentState.AVAILABLE)
        .select_related("runtime")
        .order_by("-runtime__embedded", "id")
        .first()
    )
    if deployment is None:
        raise Conflict(
            f"{version} is not in service.",
            reason="NOT_DEPLOYED",
            help_text="Deploy it, then try it.",
        )
    client = client_for(runtime=deployment.runtime)
    name, number = version.model.name, version.number
    try:
        before = client.statistics(name, number)
        started = time.perf_counter()
        answer = client.infer(name, tensors, version=number, timeout=_TIMEOUT_SECONDS)
        total_ms = (time.perf_counter() - started) * 1000
        after = client.statistics(name, number)
    except RuntimeUnreachable as problem:
        raise Unavailable(problem.text, reason="RUNTIME_UNREACHABLE") from None
    except RuntimeRefused as problem:
        raise InvalidInput(problem.text, reason="RUNTIME_REFUSED") from None
    queue_ms, compute_ms = _split(before, after)
    return Trial(
        version=answer.version,
        runtime=deployment.runtime.name,
        outputs=[_view(tensor) for tensor in answer.outputs],
        total_ms=total_ms,
        queue_ms=queue_ms,
        compute_ms=compute_ms,
    )


def _parsed(text: str) -> Any:
    try:
        body = json.loads(text)
    except ValueError as problem:
        raise InvalidInput(f"This is not JSON: {problem}.", reason="MALFORMED_BODY") from None
    return body["inputs"] if isinstance(body, dict) and "inputs" in body else body


def _split(
    before: list[VersionStatistics], after: list[VersionStatistics]
) -> tuple[float | None, float | None]:
    """Queue and compute time of this one request; unknown when others were counted in between."""
    if not before or not after or after[0].success_count - before[0].success_count != 1:
        return None, None
    was, now = before[0], after[0]
    compute = (
        now.compute_input_ns + now.compute_infer_ns + now.compute_output_ns
        - was.compute_input_ns - was.compute_infer_ns - was.compute_output_ns
    )  # fmt: skip
    return (now.queue_ns - was.queue_ns) / 1e6, compute / 1e6


def _view(tensor: Tensor) -> OutputView:
    flat = tensor.array.reshape(-1)
    shown = [_text(value) for value in flat[:_SHOWN_VALUES]]
    return OutputView(
        name=tensor.name,
        datatype=tensor.datatype,
        shape=list(tensor.array.shape),
        values=", ".join(shown),
        more=max(flat.size - _SHOWN_VALUES, 0),
        top=_top(tensor),
    )


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def _top(tensor: Tensor) -> list[tuple[int, float]]:
    array = tensor.array
    if array.dtype.kind != "f" or array.ndim != 2 or array.shape[0] != 1 or array.shape[1] < 2:
        return []
    best = np.argsort(array[0])[::-1][:_TOP]
    return [(int(index), float(array[0][index])) for index in best]
