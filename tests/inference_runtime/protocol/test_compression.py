import gzip
import os
import zlib

import pytest
from hypothesis import given, strategies as st

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import compression


@given(st.binary(max_size=2000), st.sampled_from(["gzip", "deflate"]))
def test_what_was_compressed_comes_back(data, encoding):
    assert compression.inflate(compression.deflate(data, encoding), len(data)) == data


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
def test_both_formats_are_found_out(compress):
    assert compression.inflate(compress(b"abc"), 3) == b"abc"


def test_gzip_members_follow_one_another():
    assert compression.inflate(gzip.compress(b"a", mtime=0) + gzip.compress(b"b"), 2) == b"ab"


@pytest.mark.parametrize("limit", [0, 999_999])
def test_a_bomb_stops_at_the_limit(limit):
    with pytest.raises(compression.TooLarge):
        compression.inflate(gzip.compress(bytes(1_000_000)), limit)


def test_the_limit_counts_all_members():
    with pytest.raises(compression.TooLarge):
        compression.inflate(gzip.compress(b"abc", mtime=0) * 3, 8)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 100_000])
def test_members_end_where_they_end(size):
    data = os.urandom(size)
    assert compression.inflate(gzip.compress(data) + zlib.compress(b"b"), size + 1) == data + b"b"


@pytest.mark.timeout(20)
def test_many_small_members_are_read_in_one_pass():
    member = gzip.compress(b"", mtime=0)
    assert compression.inflate(member * 60_000 + bytes(gzip.compress(b"a")), 1) == b"a"
    with pytest.raises(InvalidArgument, match="more than 65536 members"):
        compression.inflate(member * 200_000, 1)


@pytest.mark.parametrize("data", [b"plain", gzip.compress(b"abc", mtime=0)[:-4], b""])
def test_what_is_not_compressed_data_is_refused(data):
    with pytest.raises(InvalidArgument, match="failed to decompress the request body"):
        compression.inflate(data, 100)


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", "identity"),
        ("gzip", "gzip"),
        ("deflate, gzip", "deflate"),
        ("deflate;q=0.5, gzip;q=0.8", "gzip"),
        ("GZIP ; q=1", "gzip"),
        ("gzip;q=x, deflate;q=0.1", "deflate"),
        ("gzip;q=2", "identity"),
        ("gzip;level=3", "identity"),
        ("gzip;q=0", "identity"),
        ("br, *", "identity"),
        ("identity, gzip", "identity"),
        ("gzip;q=0.5, identity;q=0.9", "identity"),
    ],
)
def test_the_highest_weight_wins_and_the_earliest_of_equals(header, chosen):
    assert compression.choose(header) == chosen
