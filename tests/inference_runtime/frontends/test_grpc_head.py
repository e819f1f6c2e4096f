"""What the headers of a gRPC call come to."""

import time

import pytest

from inference_runtime.frontends.grpc_head import CallHeads
from inference_runtime.frontends.grpc_unary import RefusedMethod


def timeout_ns(text: bytes) -> int:
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/a/B"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        (b"grpc-timeout", text),
    ]
    method = RefusedMethod()
    head = CallHeads({b"/a/B": method}, method).describe(fields)
    assert head.fault is None
    return head.timeout_ns


@pytest.mark.parametrize(
    ("text", "expected"), [(b"0n", 1), (b"7m", 7_000_000), (b"2H", 7_200_000_000_000)]
)
def test_a_timeout_is_read_with_its_unit(text, expected):
    assert timeout_ns(text) == expected


def test_a_deadline_of_the_far_future_still_fits_into_64_bits():
    assert time.monotonic_ns() + timeout_ns(b"99999999H") < 2**63
