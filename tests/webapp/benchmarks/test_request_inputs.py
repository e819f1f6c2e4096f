import numpy as np
import pytest

from webapp.benchmarks.request_inputs import generated, given
from webapp.core.errors import InvalidInput


def test_generated_inputs_have_the_signatures_names_types_and_shapes() -> None:
    tensors = generated(
        [
            {"name": "ids", "datatype": "INT64", "shape": [-1, -1]},
            {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "s", "datatype": "BYTES", "shape": [-1, 1]},
            {"name": "h", "datatype": "BF16", "shape": [-1, 2]},
            {"name": "flag", "datatype": "BOOL", "shape": [-1, 1]},
        ],
        batch_size=4,
        batched=True,
    )
    assert [(t.name, t.array.shape) for t in tensors] == [
        ("ids", (4, 16)), ("x", (4, 3)), ("s", (4, 1)), ("h", (4, 2)), ("flag", (4, 1)),
    ]  # fmt: skip
    assert set(np.unique(tensors[0].array)) <= {0, 1}
    assert tensors[1].array.dtype == np.float32


def test_generated_inputs_are_the_same_every_time() -> None:
    signature = [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
    first, second = (generated(signature, batch_size=2, batched=True) for _ in range(2))
    assert np.array_equal(first[0].array, second[0].array)


def test_given_inputs_are_read_from_the_protocols_own_form() -> None:
    (tensor,) = given([{"name": "x", "datatype": "INT32", "shape": [1, 2], "data": [3, 4]}])
    assert tensor.array.tolist() == [[3, 4]]
    (words,) = given([{"name": "s", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}])
    assert words.array.tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        ["x"],
        [{"name": "x"}],
        [{"name": "x", "datatype": "INT33", "shape": [1], "data": [1]}],
        [{"name": "x", "datatype": "INT32", "shape": [3], "data": [1]}],
        [{"name": "x", "datatype": "UINT8", "shape": [1], "data": [300]}],
        [{"name": "x", "datatype": "FP32", "shape": [1], "data": ["one"]}],
    ],
)
def test_inputs_that_cannot_be_meant_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="inputs"):
        given(bad)
