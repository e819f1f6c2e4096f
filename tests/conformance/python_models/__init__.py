"""Model files for the Python backend, and the repositories that tests put them in.

The files import `triton_python_backend_utils`, which only the process of a model has.
"""

import shutil
from pathlib import Path

HERE = Path(__file__).parent

ONE_TO_ONE = """
    input { name: "IN" data_type: TYPE_INT32 dims: [1] }
    output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
"""
PORTS = {
    "script": """
        input { name: "CODE" data_type: TYPE_STRING dims: [1] }
        output { name: "RESULT" data_type: TYPE_STRING dims: [1] }
    """,
    "add_sub": "",
    "repeat": """
        max_batch_size: 0
        model_transaction_policy { decoupled: True }
        input { name: "IN" data_type: TYPE_INT32 dims: [-1] }
        input { name: "DELAY" data_type: TYPE_UINT32 dims: [-1] }
        output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
        output { name: "IDX" data_type: TYPE_UINT32 dims: [1] }
    """,
    "mock_llm": """
        model_transaction_policy { decoupled: True }
        input { name: "PROMPT" data_type: TYPE_STRING dims: [1] }
        input { name: "STREAM" data_type: TYPE_BOOL dims: [1] optional: true }
        input { name: "REPETITION" data_type: TYPE_INT32 dims: [1] optional: true }
        input { name: "DELAY" data_type: TYPE_FP32 dims: [1] optional: true }
        output { name: "TEXT" data_type: TYPE_STRING dims: [1] }
    """,
}


def write_python_model(
    repository: Path,
    name: str,
    *,
    source: str | None = None,
    config: str | None = None,
    version: int = 1,
) -> Path:
    """Its directory. `source` is the text of a model, or the file of that name here is taken."""
    directory = repository / name
    folder = directory / str(version)
    folder.mkdir(parents=True)
    if source is None:
        shutil.copy(HERE / f"{name}.py", folder / "model.py")
    else:
        (folder / "model.py").write_text(source)
    text = PORTS.get(name, "") if config is None else config
    (directory / "config.pbtxt").write_text(f'name: "{name}"\nbackend: "python"\n{text}\n')
    return directory
