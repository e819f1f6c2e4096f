"""Config texts of small ensembles, and the models they are made of."""

from collections.abc import Mapping
from pathlib import Path

from tests.onnx_models import add_constant, failing, write_model


def write_ensemble(
    path: Path,
    name: str,
    steps: str,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    more: str = "max_batch_size: 4",
) -> Path:
    """Ports by name → the rest of their entry, FP32 [4] unless given."""
    ports = "".join(
        f'{kind} {{ name: "{port}" {rest} }}\n'
        for kind, entries in (
            ("input", inputs if inputs is not None else {"IN": FLOATS}),
            ("output", outputs if outputs is not None else {"OUT": FLOATS}),
        )
        for port, rest in entries.items()
    )
    directory = path / name
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "config.pbtxt").write_text(
        f'platform: "ensemble" {more}\n{ports}ensemble_scheduling {{ {steps} }}'
    )
    return directory


FLOATS = "data_type: TYPE_FP32 dims: [4]"


def step(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str], version=-1) -> str:
    maps = "".join(
        f'{kind} {{ key: "{key}" value: "{value}" }} '
        for kind, entries in (("input_map", inputs), ("output_map", outputs))
        for key, value in entries.items()
    )
    return f'step {{ model_name: "{model}" model_version: {version} {maps} }}\n'


def write_adders(path: Path) -> None:
    """plus1, plus10: y = x + 1, y = x + 10; broken: fails for an INDEX of 10 and more."""
    write_model(path, "plus1", add_constant(1))
    write_model(path, "plus10", add_constant(10))
    write_model(path, "broken", failing())


CHAIN = step("plus1", {"INPUT0": "IN"}, {"OUTPUT0": "middle"}) + step(
    "plus10", {"INPUT0": "middle"}, {"OUTPUT0": "OUT"}
)
