"""Tensors as bytes and as arrays."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from inference_runtime.spec.datatypes import BY_WIRE, DATATYPES, config_name, wire_name
from inference_runtime.spec.model_config import TensorSpec
from inference_runtime.spec.tensors import (
    BytesFramingError,
    backend_shape,
    byte_size,
    client_shape,
    count_bytes,
    join_bytes,
    split_bytes,
    to_array,
    to_wire,
)


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_bytes_elements_survive_the_wire(elements):
    assert split_bytes(join_bytes(elements)) == elements
    assert count_bytes(join_bytes(elements), 20) == len(elements)


@pytest.mark.parametrize("size", [0, 1, 5, 4096])
@pytest.mark.parametrize("count", [1, 3, 1000])
def test_many_elements_of_one_length_are_counted_as_any_others(size, count):
    data = join_bytes([b"\x01" * size] * count)
    assert count_bytes(data, count) == count
    assert count_bytes(data, count - 1) == count  # one beyond the limit
    assert count_bytes(data, count + 1) == count
    other = join_bytes([b"x" * size] * (count - 1) + [b"x" * (size + 1)])
    assert count_bytes(other, count) == count


def test_elements_that_only_look_equally_long():
    elements = [b"\x01" * 8] * 999 + [b"\x01" * 4, b"\x01" * 8]  # as long as 1000 of them
    with pytest.raises(BytesFramingError):
        count_bytes(join_bytes(elements)[:-8], 1000)


def test_counting_stops_one_beyond_the_limit():
    assert count_bytes(join_bytes([b"x"] * 10), 3) == 4


@pytest.mark.parametrize(
    ("data", "wanted", "left", "in_length"),
    [(b"\x01\x00", 4, 2, True), (b"\x05\x00\x00\x00ab", 5, 2, False)],
)
def test_broken_framing_says_what_is_missing(data, wanted, left, in_length):
    for read in (split_bytes, lambda broken: count_bytes(broken, 10)):
        with pytest.raises(BytesFramingError) as caught:
            read(data)
        assert (caught.value.wanted, caught.value.left) == (wanted, left)
        assert caught.value.in_length is in_length


@pytest.mark.parametrize("row", [row for row in DATATYPES if row.item_size], ids=lambda r: r.wire)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 0), ()], ids=str)
def test_fixed_size_tensors_survive_the_wire(row, shape):
    count = int(np.prod(shape))
    data = (np.arange(count) % 2).astype(row.dtype).tobytes()
    array = to_array(row.wire, shape, data)
    assert array.shape == shape
    assert array.dtype == row.dtype
    assert bytes(to_wire(row.wire, array)) == data
    assert byte_size(row.wire, shape) == len(data)


def test_any_byte_but_zero_is_true():
    assert to_array("BOOL", (3,), b"\x00\x01\x7f").tolist() == [False, True, True]


def test_config_and_wire_names_meet():
    for row in DATATYPES:
        assert config_name(row.wire) == row.config
        assert wire_name(row.number) == row.wire
    assert config_name("FP8") == "TYPE_INVALID"
    assert BY_WIRE["BYTES"].item_size == 0


def test_reshape_fills_variable_dimensions_in_their_order():
    spec = TensorSpec("x", "FP32", dims=(-1, 2, -1), reshape=(2, -1, -1))
    assert backend_shape(spec, (8, 5, 2, 7), batching=True) == (8, 2, 5, 7)
    assert client_shape(spec, (8, 2, 5, 7), batching=True) == (8, 5, 2, 7)


def test_empty_reshape_makes_a_scalar_and_back():
    spec = TensorSpec("x", "FP32", dims=(1,), reshape=())
    assert backend_shape(spec, (4, 1), batching=True) == (4,)
    assert client_shape(spec, (4,), batching=True) == (4, 1)
