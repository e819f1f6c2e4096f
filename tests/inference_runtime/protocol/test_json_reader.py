import contextlib
import json
import math

import pytest
from hypothesis import given, strategies as st

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import json_reader

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_reads_what_json_means(value):
    assert json_reader.parse(json.dumps(value).encode()) == value


@given(VALUES)
def test_reads_the_same_beside_a_bare_word(value):
    # NaN sends the text the second way, whose answers must be the same.
    first, second = json_reader.parse(json.dumps([math.nan, value]).encode())
    assert math.isnan(first)
    assert second == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("Infinity", math.inf), ("-Infinity", -math.inf), ("Inf", math.inf), ("-Inf", -math.inf)],
)
def test_infinities_have_two_spellings(text, value):
    assert json_reader.parse(f'{{"a":[{text}],"b":"{text}"}}'.encode()) == {"a": [value], "b": text}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        '{"a":}',
        "nul",
        "NaNs",
        "[NaN",
        '"\\ud800"x',
        "[1e999]",
        "[NaN,1e999]",
        "\x00",
    ],
)
def test_bad_syntax_is_the_clients_fault_in_tritons_words(text):
    with pytest.raises(InvalidArgument, match=r"failed to parse the request JSON buffer: .* at "):
        json_reader.parse(text.encode())


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(text):
    with contextlib.suppress(InvalidArgument):
        json_reader.parse(text)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_hostile_nesting_is_cut_off(opening):
    closing = b"]" if opening == b"[" else b"}"
    deep = opening * 250_000 + b"1" + closing * 250_000
    document = json_reader.parse(b'{"ready":' + deep + b',"name":"x"}')
    assert document["name"] == "x"
    assert not isinstance(document["ready"], bool)


def test_nesting_without_end_is_a_syntax_error():
    with pytest.raises(InvalidArgument, match="failed to parse"):
        json_reader.parse(b"[" * 250_000)


def test_digits_without_end_are_refused():
    with pytest.raises(InvalidArgument, match="failed to parse"):
        json_reader.parse(b"[NaN," + b"9" * 5000 + b"]")


@pytest.mark.parametrize(
    ("read", "wrong", "found", "wanted"),
    [
        (json_reader.string, 1, "non-string", "string"),
        (json_reader.boolean, 1, "non-boolean", "boolean"),
        (json_reader.unsigned, -1, "non-unsigned-integer", "unsigned-integer"),
        (json_reader.unsigned, 1.0, "non-unsigned-integer", "unsigned-integer"),
        (json_reader.unsigned, True, "non-unsigned-integer", "unsigned-integer"),
        (json_reader.unsigned, 2**64, "non-unsigned-integer", "unsigned-integer"),
        (json_reader.signed, 2**63, "non-signed-integer", "signed-integer"),
        (json_reader.signed, "1", "non-signed-integer", "signed-integer"),
        (json_reader.array, {}, "non-array", "array"),
        (json_reader.mapping, [], "non-object", "object"),
    ],
)
def test_wrong_types_are_named(read, wrong, found, wanted):
    with pytest.raises(InvalidArgument) as caught:
        read(wrong, "key")
    assert caught.value.text == f"Unable to parse 'key': attempt to access JSON {found} as {wanted}"


def test_a_missing_member_is_named():
    with pytest.raises(
        InvalidArgument, match="attempt to access non-existing object member 'inputs'"
    ):
        json_reader.member({}, "inputs")


def test_an_empty_body_is_an_empty_object():
    assert json_reader.parse_object(b"") == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a":1,"a":2}', {"a": 1}),
        ('{"a":1,"b":{"c":1,"c":2},"a":{"d":3}}', {"a": 1, "b": {"c": 1}}),
        ('{"i":[{"n":1},{"n":2,"n" \t:3}]}', {"i": [{"n": 1}, {"n": 2}]}),
        ('{"i":[1,{"n":2,"n":3}]}', {"i": [1, {"n": 2}]}),
        ('{"i":[[{"n":2,"n":3}]]}', {"i": [[{"n": 2}]]}),
        ('{"a":NaN,"b":1,"b":2}', {"b": 1}),
        ('{"a":"x:y","b":"\\":","a":"z"}', {"a": "x:y", "b": '":'}),
        ('{"url":["http://h:1/","c:\\\\x"],"t":"12:30"}', None),
        ('{"t":"{\\"k\\": 1}"}', None),
    ],
)
def test_of_a_key_given_twice_the_first_counts(text, found):
    value = json_reader.parse(text.encode())
    if found is None:
        assert value == json.loads(text)
    else:
        assert {key: value[key] for key in found} == found


@pytest.mark.parametrize(
    "half",
    [b"\\ud800", b"\\uDfff", b"x\\ud83d\\u0020", b"\xed\xa0\x80", b"\xff"],
    ids=["high", "low", "alone", "its bytes", "no text at all"],
)
@pytest.mark.parametrize("beside", [b"NaN", b'1,"a":2', b"0"])
def test_half_a_character_is_refused_wherever_it_stands(half, beside):
    for body in (b'{"a":%b,"b":["%b"]}', b'{"a":%b,"%b":1}'):
        for parse in (json_reader.parse, json_reader.parse_pairs):
            with pytest.raises(InvalidArgument, match="failed to parse the request JSON buffer"):
                parse(body % (beside, half))


@pytest.mark.parametrize("beside", [b"NaN", b"0"])
def test_a_pair_of_halves_is_a_character(beside):
    body = b'{"a":%b,"b":"\\ud83d\\ude00"}' % beside
    assert json_reader.parse(body)["b"] == "\N{GRINNING FACE}"
    assert json_reader.parse_pairs(body)[1] == ("b", "\N{GRINNING FACE}")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_only_utf8_is_read(encoding):
    for parse in (json_reader.parse, json_reader.parse_pairs):
        with pytest.raises(InvalidArgument, match="failed to parse the request JSON buffer"):
            parse('{"a":1}'.encode(encoding))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        b'{"P:true}:' + b"\xff" * 60 + b"}",
        b'{"a":"' + b"x" * 1_000_000,
        b'{"a":' + b'"\\' * 500_000,
        b'{"a":"' + b'\\"' * 500_000,
        b'"' * 1_000_001,
        b'{"a":NaN,"b":"' + b"y\\" * 500_000,
    ],
)
def test_a_string_without_an_end_is_refused_in_one_pass(text):
    for parse in (json_reader.parse, json_reader.parse_pairs):
        with pytest.raises(InvalidArgument, match="failed to parse the request JSON buffer"):
            parse(text)
