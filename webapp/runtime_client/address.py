"""Addresses of a runtime: `host:port`, without scheme or path."""

import re

_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?\Z"
)
_IPV6 = re.compile(r"\[[0-9A-Fa-f:.%]+\]\Z")


class AddressProblem(ValueError):
    """The text is not an address. The message says what would be one."""


def parse_address(text: str) -> tuple[str, int]:
    """`"10.0.0.7:8000"` → `("10.0.0.7", 8000)`; IPv6 hosts stand in brackets."""
    if "://" in text:
        raise AddressProblem(f"'{text}' has a scheme; write host:port, such as 10.0.0.7:8000")
    host, colon, port = text.rpartition(":")
    if not colon or not (_HOST.match(host) or _IPV6.match(host)):
        raise AddressProblem(f"'{text}' is not host:port, such as 10.0.0.7:8000")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise AddressProblem(f"'{port}' is not a port; ports are 1 to 65535")
    return host, int(port)
