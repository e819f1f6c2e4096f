"""The call that would put a point into an empty chart, for a model that is really there."""

import json
import shlex
from dataclasses import dataclass
from math import prod
from typing import Any

from webapp.serving.choices import DeploymentState
from webapp.serving.models import Deployment

_SHORT = 64  # elements that still fit on a line a person copies
_VALUES: dict[str, Any] = {"BOOL": True, "BYTES": "text"}


@dataclass(frozen=True, slots=True)
class FirstCall:
    model: str
    version: int
    command: str


def first_call(*, model: str = "", runtime: str = "") -> FirstCall | None:
    """None when nothing that matches is loaded."""
    rows = Deployment.objects.filter(wanted=True, state=DeploymentState.AVAILABLE)
    if model:
        rows = rows.filter(version__model__name=model)
    if runtime:
        rows = rows.filter(runtime__name=runtime)
    found = rows.select_related("runtime", "version__model").order_by("-since").first()
    if found is None:
        return None
    name, number = found.version.model.name, found.version.number
    url = f"http://{found.runtime.http_address}/v2/models/{name}/infer"
    return FirstCall(name, number, curl_line(url, found.version.inputs))


def curl_line(url: str, inputs: list[dict[str, Any]]) -> str:
    """Inline for small inputs; for pictures and the like the numbers are made on the way."""
    if sum(_elements(one["shape"]) for one in inputs) <= _SHORT:
        body = json.dumps({"inputs": [_tensor(one) for one in inputs]})
        return f"curl -sS {url} -d {shlex.quote(body)}"
    parts = ", ".join(_python_tensor(one) for one in inputs)
    program = f'import json; print(json.dumps({{"inputs": [{parts}]}}))'
    return f"python3 -c {shlex.quote(program)} | curl -sS {url} -d @-"


def _shape(shape: list[int]) -> list[int]:
    return [1 if size < 0 else size for size in shape]


def _elements(shape: list[int]) -> int:
    return prod(_shape(shape))


def _value(datatype: str) -> Any:
    return _VALUES.get(datatype, 0.5 if datatype.startswith(("FP", "BF")) else 1)


def _tensor(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": one["name"],
        "datatype": one["datatype"],
        "shape": _shape(one["shape"]),
        "data": [_value(one["datatype"])] * _elements(one["shape"]),
    }


def _python_tensor(one: dict[str, Any]) -> str:
    shape = _shape(one["shape"])
    name, value = json.dumps(one["name"], ensure_ascii=False), _value(one["datatype"])
    literal = json.dumps(value) if isinstance(value, str) else repr(value)
    return (
        f'{{"name": {name}, "datatype": "{one["datatype"]}", "shape": {shape}, '
        f'"data": [{literal}] * {prod(shape)}}}'
    )
