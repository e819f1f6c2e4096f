"""A runtime for Python models that tests write themselves, and what they ask of it."""

import json
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.runtime_process import RuntimeProcess

HEADER = "import json, os, sys, time\nimport numpy as np\nimport triton_python_backend_utils as pb_utils\n\n"


class PythonWorld:
    def __init__(self, server: RuntimeProcess, repository: Path) -> None:
        self.server = server
        self.repository = repository

    def write(
        self,
        name: str,
        body: str,
        config: str = ONE_TO_ONE,
        *,
        whole: bool = False,
        version: int = 1,
    ) -> Path:
        """`body` is what stands inside the class, unless it is the `whole` file."""
        source = textwrap.dedent(body)
        if not whole:
            methods = textwrap.indent(source, "    ")
            source = f"{HEADER}class TritonPythonModel:\n    answer = None\n{methods}\n"
        return write_python_model(
            self.repository, name, source=source, config=config, version=version
        )

    def load(self, name: str) -> tuple[int, Any]:
        return self.server.call("POST", f"/v2/repository/models/{name}/load", {})

    def unload(self, name: str) -> None:
        assert self.server.call("POST", f"/v2/repository/models/{name}/unload", {})[0] == 200

    def serve(self, name: str, body: str, config: str = ONE_TO_ONE) -> None:
        self.write(name, body, config)
        status, answer = self.load(name)
        assert status == 200, answer

    def refusal(self, name: str) -> str:
        """Why it does not load."""
        status, answer = self.load(name)
        assert status == 400, answer
        return answer["error"]

    def infer(self, name: str, value: int = 1, **more: Any) -> tuple[int, Any]:
        body = {"inputs": [tensor("IN", [value])], **more}
        return self.server.call("POST", f"/v2/models/{name}/infer", body)

    def out(self, name: str, value: int = 1, **more: Any) -> Any:
        status, answer = self.infer(name, value, **more)
        assert status == 200, answer
        return answer["outputs"][0]["data"][0]

    def together(self, name: str, values: Sequence[int]) -> list[tuple[int, Any]]:
        with ThreadPoolExecutor(len(values)) as pool:
            return list(pool.map(lambda value: self.infer(name, value), values))

    def run(self, code: str, **more: Any) -> Any:
        """The `result` of a text that runs in the model `script`."""
        status, answer = self.run_raw(code, **more)
        assert status == 200, answer
        return json.loads(answer["outputs"][0]["data"][0])

    def run_raw(self, code: str, **more: Any) -> tuple[int, Any]:
        text = textwrap.dedent(code)
        tensor = {"name": "CODE", "shape": [1], "datatype": "BYTES", "data": [text]}
        return self.server.call("POST", "/v2/models/script/infer", {"inputs": [tensor], **more})

    def error_of(self, expression: str) -> str:
        """Type and text of what an expression raises inside a model."""
        code = f"""
            try:
                {expression}
                result = "nothing"
            except Exception as error:
                result = f"{{type(error).__name__}}: {{error}}"
        """
        return self.run(code)

    def ready(self, name: str) -> int:
        return self.server.call("GET", f"/v2/models/{name}/ready")[0]

    def metrics(self) -> str:
        import urllib.request

        with urllib.request.urlopen(f"http://{self.server.metrics}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def children(self) -> dict[int, str]:
        """Processes of the server → their state."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == self.server.process.pid:
                found[int(stat.parent.name)] = fields[0]
        return found


def tensor(name: str, values: Sequence[Any], datatype: str = "INT32") -> dict[str, Any]:
    shape = list(np.shape(values))
    return {"name": name, "shape": shape, "datatype": datatype, "data": values}


def eventually(condition: Any, seconds: float = 20.0) -> Any:
    """Its first value that is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)
