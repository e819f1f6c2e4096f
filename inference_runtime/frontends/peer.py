"""Where a client is, as far as its connection tells."""

from ipaddress import IPv6Address, ip_address
from typing import Any


def is_loopback(transport: Any) -> bool:
    """Whether the client is on this machine: its address is on loopback, or it came by a socket file."""
    address = transport.get_extra_info("peername")
    if not isinstance(address, tuple):
        return isinstance(address, str)  # a socket file's, mostly ""
    try:
        host = ip_address(address[0].partition("%")[0])
    except ValueError:
        return False
    if isinstance(host, IPv6Address) and host.ipv4_mapped is not None:
        return host.ipv4_mapped.is_loopback
    return host.is_loopback
