"""Config against model, and version against version: what is said, and how hard."""

import pytest

from inference_runtime.spec.config_text import config_from_text
from webapp.catalog.tensors import Tensor, shape_words
from webapp.catalog.validation import config_problems, contract_changes

INPUTS = [Tensor("x", "FP32", (-1, 3, 224, 224))]
OUTPUTS = [Tensor("y", "FP32", (-1, 1000))]


@pytest.mark.parametrize(
    "config",
    [
        "",
        "max_batch_size: 8",
        'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [3, 224, 224] }',
        'input { name: "x" data_type: TYPE_FP32 dims: [-1, 3, 224, 224] }',
        'max_batch_size: 2 output { name: "y" data_type: TYPE_FP32 dims: [1000] }',
        'max_batch_size: 2 input { name: "x" data_type: TYPE_FP32 dims: [150528] '
        "reshape { shape: [3, 224, 224] } }",
    ],
)
def test_a_config_that_agrees_has_no_problem(config: str) -> None:
    assert config_problems(config_from_text(config), INPUTS, OUTPUTS) == []


@pytest.mark.parametrize(
    ("config", "detail", "fix"),
    [
        (
            'input { name: "images" data_type: TYPE_FP32 dims: [3] }',
            "names input 'images'; the model has x",
            "Use the model's own names (x)",
        ),
        (
            'max_batch_size: 1 input { name: "x" data_type: TYPE_UINT8 dims: [3, 224, 224] }',
            "input x is UINT8; the model says FP32",
            "data_type: TYPE_FP32",
        ),
        (
            'max_batch_size: 1 input { name: "x" data_type: TYPE_FP32 dims: [224, 224, 3] }',
            "dims [224, 224, 3]",
            "Write dims: [3, 224, 224] (the batch axis is left out)",
        ),
    ],
)
def test_a_config_that_differs_says_what_to_write(config: str, detail: str, fix: str) -> None:
    (problem,) = config_problems(config_from_text(config), INPUTS, OUTPUTS)
    assert problem.hard
    assert detail in problem.detail
    assert fix in problem.fix


def test_batching_needs_a_free_first_axis() -> None:
    fixed = [Tensor("x", "FP32", (1, 3))]
    (problem,) = config_problems(config_from_text("max_batch_size: 4"), fixed, OUTPUTS)
    assert "first axis of input x is 1" in problem.detail
    assert "max_batch_size: 0" in problem.fix


def test_a_declared_output_shape_is_only_warned_of() -> None:
    config = 'max_batch_size: 4 output { name: "y" data_type: TYPE_FP32 dims: [10] }'
    (problem,) = config_problems(config_from_text(config), INPUTS, OUTPUTS)
    assert not problem.hard


def test_the_same_or_a_wider_contract_is_no_change() -> None:
    same = (INPUTS, OUTPUTS)
    assert contract_changes(before=same, after=same) == []
    wider = ([Tensor("x", "FP32", (-1, 3, -1, -1))], OUTPUTS)
    assert contract_changes(before=same, after=wider) == []
    assert contract_changes(before=wider, after=same) != []


def test_every_change_says_what_clients_would_notice() -> None:
    after = (
        [Tensor("x", "FP16", (-1, 3, 224, 224)), Tensor("mask", "BOOL", (-1,))],
        [Tensor("z", "FP32", (-1, 1000))],
    )
    assert contract_changes(before=(INPUTS, OUTPUTS), after=after) == [
        "input mask is new (requests without it fail).",
        "input x is FP16, was FP32.",
        "output y is gone (clients miss it).",
        "output z is new (harmless unless clients count outputs).",
    ]


def test_shapes_are_read_aloud() -> None:
    assert shape_words((-1, 3, 224)) == "[any, 3, 224]"
    assert shape_words(()) == "[]"
