import pytest

from webapp.runtime_client.address import AddressProblem, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.7:8000", ("10.0.0.7", 8000)),
        ("gpu-1.internal:65535", ("gpu-1.internal", 65535)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:8000", ("[::1]", 8000)),
    ],
)
def test_reads_host_and_port(text, expected):
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "host", ":8000", "host:", "host:0", "host:65536", "host:8000/v2", "http://host:8000",
        "us er:8000", "host:80a", "host:-1", "::1:8000", "a@b:80", "host:８０", "-x:80",
        "host:8000\n", "host:1e3",
    ],
)  # fmt: skip
def test_refuses_what_is_not_an_address_and_says_what_would_be(text):
    with pytest.raises(AddressProblem, match=r"host:port|ports are"):
        parse_address(text)
