"""Parameters of requests and responses: a flat dictionary of plain values."""

from typing import Any

from inference_runtime.backends.python.stub.errors import TritonModelException
from inference_runtime.backends.python.stub.json_text import dumps


def checked(parameters: Any) -> dict[str, Any]:
    if parameters is None:
        return {}
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(
                f"Expect parameters keys to have type str, found type {type(key)}"
            )
        if not isinstance(value, bool | int | str):
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type {type(value)}"
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise TritonModelException("Expect parameters values of type int to fit into 64 bits")
    return dict(parameters)


def text(parameters: dict[str, Any]) -> str:
    return dumps(parameters)
