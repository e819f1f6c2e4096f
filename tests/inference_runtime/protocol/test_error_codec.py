import json
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, strategies as st

from inference_runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    Denied,
    FaultCode,
    Internal,
    InvalidArgument,
    NotFound,
    Unavailable,
    Unsupported,
)
from inference_runtime.protocol import error_codec


@pytest.mark.parametrize("code", FaultCode)
def test_every_code_has_both_statuses(code):
    assert 400 <= error_codec.HTTP_STATUS[code] < 600
    assert 1 <= error_codec.GRPC_STATUS[code] <= 16


@pytest.mark.parametrize(
    ("fault", "http", "grpc"),
    [
        (InvalidArgument, 400, 3),
        (NotFound, 404, 5),
        (Unavailable, 503, 14),
        (Unsupported, 501, 12),
        (Internal, 500, 13),
        (DeadlineExceeded, 503, 14),
        (Cancelled, 400, 1),
        (Denied, 403, 14),
    ],
)
def test_faults_have_tritons_statuses(fault, http, grpc):
    assert error_codec.http_status(fault("x")) == http
    assert error_codec.grpc_status(fault("x")) == grpc


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_text_makes_a_body(text):
    body = error_codec.http_body(text)
    assert json.loads(body).keys() == {"error"}


def test_the_body_is_compact():
    assert error_codec.http_body("Not Found") == b'{"error":"Not Found"}'


@given(st.text(max_size=200))
def test_grpc_messages_are_printable_and_come_back(text):
    encoded = error_codec.grpc_message(text)
    assert all(0x20 <= byte < 0x7F for byte in encoded)
    assert unquote_to_bytes(encoded) == text.encode()


@pytest.mark.parametrize(
    "text", ["ü" * 5000, "%" * 5000, "x" * 9000, "xx" + "ü" * 5000, "x" + "ü" * 5000]
)
def test_long_grpc_messages_are_cut_between_characters_codes(text):
    encoded = error_codec.grpc_message(text)
    assert len(encoded) <= 4096
    assert text.encode().startswith(unquote_to_bytes(encoded))
