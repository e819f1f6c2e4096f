"""The call that a person can copy: their model, their address, their inputs. Pure."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

_SAMPLE = {"BYTES": "text", "BOOL": True, "FP16": 0.5, "FP32": 0.5, "FP64": 0.5, "BF16": 0.5}
_LONGEST_SAMPLE = 64  # elements; a picture's worth of numbers helps nobody
FREE_AXIS = 4


@dataclass(frozen=True, slots=True)
class Snippet:
    title: str
    text: str


def sample_inputs(signature: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A request's `inputs` with the signature's names and shapes, and values to overwrite.

    Large inputs get an empty list: the page says how many numbers belong there.
    """
    return [_sample(entry) for entry in signature]


@dataclass(frozen=True, slots=True)
class TrialField:
    """One input as a box to type in: text as it is, numbers with commas between them."""

    name: str
    hint: str  # datatype and shape
    value: str
    is_text: bool


def trial_fields(inputs: Sequence[Mapping[str, Any]]) -> list[TrialField]:
    """A box for each input of a request; none when one is too large to type."""
    if not all(entry["data"] for entry in inputs):
        return []
    return [
        TrialField(
            name=entry["name"],
            hint=f"{entry['datatype']} {entry['shape']}",
            value=", ".join(
                str(value).lower() if value is True else str(value) for value in entry["data"]
            ),
            is_text=entry["datatype"] == "BYTES",
        )
        for entry in inputs
    ]


def _sample(entry: Mapping[str, Any]) -> dict[str, Any]:
    shape = [1 if axis == 0 and size < 0 else abs(size) if size > 0 else FREE_AXIS
             for axis, size in enumerate(entry["shape"])]  # fmt: skip
    count = prod(shape)
    data = [_value(entry)] * count if count <= _LONGEST_SAMPLE else []
    return {"name": entry["name"], "datatype": entry["datatype"], "shape": shape, "data": data}


def _value(entry: Mapping[str, Any]) -> Any:
    return _SAMPLE.get(entry["datatype"], 1)


def snippets(
    *, model: str, version: int | None, http: str, grpc: str, inputs: Sequence[Mapping[str, Any]]
) -> list[Snippet]:
    """The same call in curl, Python and JavaScript. No version: the traffic table chooses.

    Each runs as it stands: inputs too large to write down are filled where the call is made.
    """
    path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/infer"
    return [
        Snippet("curl", _curl(f"http://{http}{path}", inputs)),
        Snippet("Python", _python(model, version, grpc, inputs)),
        Snippet("JavaScript", _javascript(f"http://{http}{path}", inputs)),
    ]


def _curl(url: str, inputs: Sequence[Mapping[str, Any]]) -> str:
    if all(entry["data"] for entry in inputs):
        return f"curl {url} -d {shlex.quote(json.dumps({'inputs': list(inputs)}))}"
    program = f'import json; print(json.dumps({{"inputs": {_python_inputs(inputs)}}}))'
    return f"python3 -c {shlex.quote(program)} | curl {url} -d @-"


def _javascript(url: str, inputs: Sequence[Mapping[str, Any]]) -> str:
    entries = ", ".join(
        "{"
        + ", ".join(f"{key}: {json.dumps(entry[key])}" for key in ("name", "datatype", "shape"))
        + f", data: {_javascript_data(entry)}}}"
        for entry in inputs
    )
    return (
        f"const answer = await fetch('{url}', {{\n  method: 'POST',\n"
        f"  body: JSON.stringify({{inputs: [{entries}]}}),\n}});\n"
        "console.log(await answer.json());"
    )


def _javascript_data(entry: Mapping[str, Any]) -> str:
    if entry["data"]:
        return json.dumps(entry["data"])
    return f"Array({prod(entry['shape'])}).fill({json.dumps(_value(entry))})"


def _python_inputs(inputs: Sequence[Mapping[str, Any]]) -> str:
    entries = ", ".join(
        "{"
        + "".join(f'"{key}": {_literal(entry[key])}, ' for key in ("name", "datatype", "shape"))
        + f'"data": {_python_data(entry)}}}'
        for entry in inputs
    )
    return f"[{entries}]"


def _python_data(entry: Mapping[str, Any]) -> str:
    if entry["data"]:
        return _literal(entry["data"])
    return f"[{_literal(_value(entry))}] * {prod(entry['shape'])}"


def _literal(value: Any) -> str:
    """As Python writes it, with double quotes: a shell takes the whole in single ones."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _python(model: str, version: int | None, grpc: str, inputs: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "import numpy as np",
        "import tritonclient.grpc as triton",
        "from tritonclient.utils import triton_to_np_dtype",
        "",
        f'client = triton.InferenceServerClient("{grpc}")',
        "inputs = []",
        f"for entry in {_python_inputs(inputs)}:",
        '    tensor = triton.InferInput(entry["name"], entry["shape"], entry["datatype"])',
        '    array = np.array(entry["data"], triton_to_np_dtype(entry["datatype"]))',
        '    tensor.set_data_from_numpy(array.reshape(entry["shape"]))',
        "    inputs.append(tensor)",
        f'result = client.infer("{model}", inputs'
        + (f', model_version="{version}")' if version else ")"),
        "for output in result.get_response().outputs:",
        "    print(output.name, result.as_numpy(output.name))",
    ]
    return "\n".join(lines)
