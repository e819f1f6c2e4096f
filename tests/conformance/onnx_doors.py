"""The ways into the server that a case is sent through, and how two answers are compared."""

import http.client
import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from inference_runtime.spec.datatypes import BY_WIRE
from tests.conformance.onnx_cases import Array, Case, Port
from tests.conformance.runtime_process import RuntimeProcess

Tensors = Mapping[str, Array]


class Refused(Exception):
    """The server answered with an error."""


class Door(Protocol):
    def ask(self, case: Case, given: Tensors) -> Tensors: ...

    def close(self) -> None: ...


class JsonDoor:
    """Written and read here and not by a client, because Python's numbers lose nothing on the way."""

    def __init__(self, server: RuntimeProcess) -> None:
        self._connection = http.client.HTTPConnection(server.http, timeout=30)

    def ask(self, case: Case, given: Tensors) -> Tensors:
        inputs = [_json_input(port, given[port.name]) for port in case.inputs]
        self._connection.request(
            "POST", f"/v2/models/{case.name}/infer", json.dumps({"inputs": inputs})
        )
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise Refused(f"{response.status} {answer['error']}")
        return {output["name"]: _from_json(output) for output in answer["outputs"]}

    def close(self) -> None:
        self._connection.close()


def _json_input(port: Port, array: Array) -> dict[str, Any]:
    if port.datatype == "BF16":
        array = array.astype(np.float32)
    return {
        "name": port.name,
        "datatype": port.datatype,
        "shape": array.shape,
        "data": [_text(element) for element in array.ravel().tolist()],
    }


def _text(element: Any) -> Any:
    return element.decode() if isinstance(element, bytes) else element


def _from_json(output: dict[str, Any]) -> Array:
    if output["datatype"] == "BYTES":
        data = [element.encode() for element in output["data"]]
        return _objects(data).reshape(output["shape"])
    return np.array(output["data"], BY_WIRE[output["datatype"]].dtype).reshape(output["shape"])


class _ClientDoor:
    """A stock client; HTTP carries the tensors as binary."""

    def __init__(self, module: Any, address: str) -> None:
        self._module = module
        self._client = module.InferenceServerClient(address)

    def ask(self, case: Case, given: Tensors) -> Tensors:
        inputs = []
        for port in case.inputs:
            array = given[port.name]
            tensor = self._module.InferInput(port.name, list(array.shape), port.datatype)
            tensor.set_data_from_numpy(array)
            inputs.append(tensor)
        result = self._client.infer(case.name, inputs)
        return {port.name: result.as_numpy(port.name) for port in case.outputs}

    def close(self) -> None:
        self._client.close()


def binary_door(server: RuntimeProcess) -> Door:
    return _ClientDoor(httpclient, server.http)


def grpc_door(server: RuntimeProcess) -> Door:
    return _ClientDoor(grpcclient, server.grpc)


DOORS = {"json": JsonDoor, "binary": binary_door, "grpc": grpc_door}


def as_clients_see(array: Array) -> Array:
    """Scalars have one element, and strings are bytes."""
    if array.ndim == 0:
        array = array.reshape((1,))
    if array.dtype.kind != "O":
        return array
    return _objects([_bytes(element) for element in array.ravel().tolist()]).reshape(array.shape)


def _bytes(element: Any) -> bytes:
    return element if isinstance(element, bytes) else str(element).encode()


def _objects(elements: list[Any]) -> Array:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def difference(got: Array | None, expected: Array) -> str:
    """What sets an answer apart from the one expected; "" when nothing does. Every NaN is like the other."""
    if got is None:
        return "no such output"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}"
    if got.dtype.kind == "O":
        same = got.tolist() == expected.tolist()
    else:
        same = _bits(got) == _bits(expected)
    return "" if same else f"{got.ravel()[:8]} instead of {expected.ravel()[:8]}"


def _bits(array: Array) -> bytes:
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.tobytes()
