import numpy as np
import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import byte_strings
from inference_runtime.protocol.classification import classify
from inference_runtime.spec.messages import TensorHead


def top(values, shape, count, *, datatype="FP32", labels=(), batching=True):
    head = TensorHead("OUT", datatype, shape)
    answer, data = classify(head, np.array(values).tobytes(), count, labels, batching)
    assert answer.datatype == "BYTES"
    return answer.shape, [text.decode() for text in byte_strings.unpack(data)]


def test_gives_the_largest_values_with_their_places():
    assert top(np.array([0.5, 2, 1], np.float32), (1, 3), 2) == (
        (1, 2),
        ["2.000000:1", "1.000000:2"],
    )


def test_adds_labels_where_there_are_some():
    assert top(np.array([1, 2], np.float32), (1, 2), 2, labels=("cat", "")) == (
        (1, 2),
        ["2.000000:1", "1.000000:0:cat"],
    )


def test_counts_places_within_one_item_of_the_batch():
    shape, texts = top(np.array([1, 5, 7, 3], np.int32), (2, 2), 1, datatype="INT32")
    assert (shape, texts) == ((2, 1), ["5:1", "7:0"])


def test_flattens_the_rest_of_the_shape():
    assert top(np.array([1, 2, 3, 9], np.int64), (1, 2, 2), 1, datatype="INT64") == (
        (1, 1),
        ["9:3"],
    )


def test_without_a_batch_dimension_the_shape_is_the_count():
    assert top(np.array([1, 2], np.float64), (2,), 5, datatype="FP64", batching=False) == (
        (2,),
        ["2.000000:1", "1.000000:0"],
    )


def test_of_equal_values_the_first_comes_first():
    assert top(np.array([1, 1, 1], np.float32), (1, 3), 3)[1] == [
        "1.000000:0",
        "1.000000:1",
        "1.000000:2",
    ]


def test_unsigned_values_are_ordered_as_unsigned():
    values = np.array([1, 2**64 - 1, 5], np.uint64)
    assert top(values, (1, 3), 1, datatype="UINT64")[1] == [f"{2**64 - 1}:1"]


@pytest.mark.parametrize("datatype", ["BOOL", "FP16", "BF16", "BYTES"])
def test_some_types_can_not_be_ranked(datatype):
    with pytest.raises(
        InvalidArgument,
        match=f"class result not available for output due to unsupported type '{datatype}'",
    ):
        classify(TensorHead("OUT", datatype, (1, 1)), b"\0\0", 1, (), True)


def test_too_many_elements_are_refused():
    with pytest.raises(InvalidArgument, match="classification output tensor too large"):
        classify(TensorHead("OUT", "INT8", (1, 1_000_001)), bytes(1_000_001), 1, (), True)


def test_an_empty_batch_has_no_classes():
    assert top(np.array([], np.float32), (0, 4), 2) == ((0, 0), [])
