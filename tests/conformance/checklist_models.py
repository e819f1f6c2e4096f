"""The models that section 9 of the compliance checklist assumes, as directories of a repository."""

from collections.abc import Sequence
from pathlib import Path

from inference_runtime.spec.datatypes import config_name
from tests.conformance.python_models import write_python_model
from tests.conformance.repeat_model import write_repeat
from tests.onnx_models import add_sub, identity, write_model

BATCHES = "max_batch_size: 8"
# Says which of its optional inputs it was given.
_WHICH = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        names = ",".join(tensor.name() for tensor in request.inputs())
        array = np.array([names.encode()], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("GIVEN", array)])
"""


def port(kind: str, name: str, datatype="FP32", dims: Sequence[int] = (-1,), more="") -> str:
    return f'{kind} {{ name: "{name}" data_type: {config_name(datatype)} dims: {list(dims)} {more} }}\n'


def write_config(repository: Path, name: str, text: str) -> Path:
    """A model without a file."""
    directory = repository / name
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(text)
    return directory


def write_echo(
    repository: Path,
    name: str,
    datatype="FP32",
    dims: Sequence[int] = (-1,),
    *,
    inputs=1,
    optional=0,
    more=BATCHES,
    of_input="",
    of_output="",
) -> None:
    """OUTPUTi is INPUTi; the `optional` inputs behind them have no output."""
    lines = [port("input", f"INPUT{number}", datatype, dims, of_input) for number in range(inputs)]
    lines += [
        port("input", f"INPUT{inputs + number}", datatype, dims, "optional: true")
        for number in range(optional)
    ]
    lines += [
        port("output", f"OUTPUT{number}", datatype, dims, of_output) for number in range(inputs)
    ]
    write_config(repository, name, f'backend: "identity" {more}\n{"".join(lines)}')


def write_inference_models(repository: Path) -> None:
    write_model(repository, "simple", add_sub(), config=BATCHES)
    write_echo(repository, "ident")
    write_echo(repository, "ident_str", "BYTES", [1])
    write_echo(repository, "ident_fp16", "FP16")
    write_echo(repository, "ident_bytes", "INT8")
    write_echo(repository, "ident_ints", "INT64", [4])
    write_echo(repository, "texts", "BYTES", more="")
    write_echo(repository, "wide", dims=[-1, -1])
    write_echo(repository, "single", more="")
    write_repeat(repository)
    labelled = 'label_filename: "labels.txt"'
    write_echo(repository, "labelled", dims=[8], of_output=labelled)
    labels = "".join(f"label{number}\n" for number in range(8))
    (repository / "labelled" / "labels.txt").write_text(labels)


def write_validation_models(repository: Path) -> None:
    write_model(repository, "simple", add_sub(), config=BATCHES)
    write_echo(repository, "three_in", inputs=3)
    write_echo(repository, "opt_in", inputs=3, optional=1)
    write_echo(repository, "ident")
    write_echo(repository, "strings", "BYTES", [16])
    for name, dims, batching in (("reshaped", (), True), ("reshaped_whole", (1, 1), False)):
        more = f"reshape {{ shape: {list(dims)} }}"
        config = port("input", "INPUT0", dims=[1], more=more) + port(
            "output", "OUTPUT0", dims=[1], more=more
        )
        write_model(
            repository,
            name,
            identity("FP32", dims, batching=batching),
            config=f"{BATCHES if batching else ''}\n{config}",
        )
    config = "".join(port("input", f"INPUT{number}", more="optional: true") for number in range(2))
    write_python_model(
        repository,
        "all_optional",
        source=_WHICH,
        config=config + port("output", "GIVEN", "BYTES", [1]),
    )


def write_message_models(repository: Path, datatypes: Sequence[str]) -> None:
    for datatype in datatypes:
        write_echo(repository, f"echo_{datatype}", datatype, more="")
    write_echo(repository, "pair", inputs=2, more="")
    write_repeat(repository)
