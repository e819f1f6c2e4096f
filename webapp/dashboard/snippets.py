"""The call that a person can copy: their model, their address, their inputs. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    count = 1
    for size in shape:
        count *= size
    value = _SAMPLE.get(entry["datatype"], 1)
    data = [value] * count if count <= _LONGEST_SAMPLE else []
    return {"name": entry["name"], "datatype": entry["datatype"], "shape": shape, "data": data}


def snippets(
    *, model: str, version: int | None, http: str, grpc: str, inputs: Sequence[Mapping[str, Any]]
) -> list[Snippet]:
    """The same call in curl, Python and JavaScript. No version: the traffic table chooses."""
    path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/infer"
    body = json.dumps({"inputs": list(inputs)})
    return [
        Snippet("curl", f"curl http://{http}{path} -d '{body}'"),
        Snippet("Python", _python(model, version, grpc, inputs)),
        Snippet(
            "JavaScript",
            f"const answer = await fetch('http://{http}{path}', {{\n  method: 'POST',\n"
            f"  body: JSON.stringify({json.dumps({'inputs': list(inputs)})}),\n}});\n"
            "console.log(await answer.json());",
        ),
    ]


def _python(model: str, version: int | None, grpc: str, inputs: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "import numpy as np",
        "import tritonclient.grpc as triton",
        "from tritonclient.utils import triton_to_np_dtype",
        "",
        f'client = triton.InferenceServerClient("{grpc}")',
        "inputs = []",
        f"for entry in {json.dumps(list(inputs)).replace('true', 'True').replace('false', 'False')}:",
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
