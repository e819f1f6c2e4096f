import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import byte_strings, json_tensors
from inference_runtime.spec.datatypes import BY_WIRE

INTEGERS = ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"]


def decode(wire, data, count=None):
    return json_tensors.decode("IN", BY_WIRE[wire], len(data) if count is None else count, data)


def bounds(wire):
    info = np.iinfo(BY_WIRE[wire].dtype.name)
    return int(info.min), int(info.max)


@pytest.mark.parametrize("wire", INTEGERS)
@given(data=st.data())
def test_integers_come_back_as_they_were(wire, data):
    low, high = bounds(wire)
    values = data.draw(st.lists(st.integers(low, high), max_size=20))
    packed = decode(wire, values)
    assert np.frombuffer(packed, BY_WIRE[wire].dtype).tolist() == values
    assert json.loads(json_tensors.encode("OUT", BY_WIRE[wire], packed)) == values


@pytest.mark.parametrize("wire", INTEGERS)
def test_numbers_that_do_not_fit_are_refused_and_not_wrapped(wire):
    low, high = bounds(wire)
    with pytest.raises(InvalidArgument, match=r"out of range|non-.*signed-integer"):
        decode(wire, [0, high + 1])
    with pytest.raises(InvalidArgument, match=r"out of range|non-.*signed-integer"):
        decode(wire, [0, low - 1])


@given(st.lists(st.floats(width=32), max_size=20))
def test_floats_come_back_with_nan_and_infinities(values):
    packed = decode("FP32", values)
    text = json_tensors.encode("OUT", BY_WIRE["FP32"], packed)
    np.testing.assert_array_equal(
        np.array(json.loads(text), np.float32), np.array(values, np.float32)
    )


@given(st.lists(st.floats(), max_size=20))
def test_doubles_come_back(values):
    text = json_tensors.encode("OUT", BY_WIRE["FP64"], decode("FP64", values))
    np.testing.assert_array_equal(np.array(json.loads(text)), np.array(values))


def test_a_float_is_printed_as_the_double_it_widens_to():
    assert json_tensors.encode(
        "OUT", BY_WIRE["FP32"], np.array([0.1, 2], np.float32).tobytes()
    ) == (b"[0.10000000149011612,2.0]")


@pytest.mark.parametrize("value", [1e39, -1e39, 10**400])
def test_a_number_too_large_for_a_float_is_refused(value):
    with pytest.raises(InvalidArgument, match="out of range"):
        decode("FP32", [value])


def test_integers_are_numbers_too():
    assert decode("FP32", [1, 2.5]) == np.array([1, 2.5], np.float32).tobytes()


@given(st.lists(st.booleans(), max_size=20))
def test_booleans_come_back(values):
    packed = decode("BOOL", values)
    assert json.loads(json_tensors.encode("OUT", BY_WIRE["BOOL"], packed)) == values


@given(st.lists(st.text(), max_size=10))
def test_strings_come_back(values):
    packed = decode("BYTES", values)
    assert byte_strings.unpack(packed) == [value.encode() for value in values]
    assert json.loads(json_tensors.encode("OUT", BY_WIRE["BYTES"], packed)) == values


def test_bytes_that_are_no_text_can_not_be_sent_as_json():
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        json_tensors.encode("OUT", BY_WIRE["BYTES"], byte_strings.pack([b"\xff"]))


@pytest.mark.parametrize(
    "nested",
    [[1, 2, 3, 4], [[1, 2], [3, 4]], [[[1], [2]], [3, 4]], [1, [2, [3]], 4], [[1, 2, 3, 4], []]],
)
def test_any_nesting_is_flattened_in_order(nested):
    assert decode("INT32", nested, 4) == np.array([1, 2, 3, 4], np.int32).tobytes()


def nest(depth):
    data: list[Any] = [1]
    for _ in range(depth - 1):
        data = [data]
    return data


def test_fifty_levels_are_fine_and_a_hundred_are_not():
    assert decode("INT32", nest(50), 1) == np.array([1], np.int32).tobytes()
    with pytest.raises(
        InvalidArgument, match=r"JSON nesting depth exceeds maximum allowed limit \(100\)"
    ):
        decode("INT32", nest(120), 1)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (16, "Failed to parse 'data' field: shape does not match true shape"),
        (14, "Unable to parse 'data': Shape does not match true shape of 'data' field"),
    ],
)
def test_a_wrong_count_is_told_in_tritons_words(count, text):
    with pytest.raises(InvalidArgument) as caught:
        decode("INT32", list(range(15)), count)
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("wire", "data", "words"),
    [
        ("INT32", ["1"], "non-signed-integer as signed-integer"),
        ("INT32", [1.0], "non-signed-integer as signed-integer"),
        ("INT32", [True], "non-signed-integer as signed-integer"),
        ("UINT8", [-1], "non-unsigned-integer as unsigned-integer"),
        ("FP32", ["x"], "non-number as double"),
        ("FP32", [None], "non-number as double"),
        ("BOOL", [1], "non-boolean as boolean"),
        ("BYTES", [1], "non-string as string"),
        ("INT32", {}, "non-array as array"),
        ("INT32", 5, "non-array as array"),
    ],
)
def test_wrong_elements_are_named(wire, data, words):
    with pytest.raises(
        InvalidArgument, match=f"Unable to parse 'data': attempt to access JSON {words}"
    ):
        decode(wire, data, 1)


@pytest.mark.parametrize("wire", ["FP16", "BF16"])
def test_half_precision_is_never_json(wire):
    with pytest.raises(InvalidArgument, match=f"receiving {wire} data via JSON is not supported"):
        decode(wire, [1.0])
    with pytest.raises(InvalidArgument, match=f"sending {wire} data via JSON is not supported"):
        json_tensors.encode("OUT", BY_WIRE[wire], b"\0\0")


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_byte_strings_keep_their_bytes(elements):
    assert byte_strings.unpack(byte_strings.pack(elements)) == elements


@pytest.mark.parametrize("data", [b"\x01", b"\x05\x00\x00\x00abc"])
def test_byte_strings_cut_short_are_refused(data):
    with pytest.raises(InvalidArgument, match="incomplete string"):
        byte_strings.unpack(data)
