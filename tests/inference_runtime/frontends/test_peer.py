import pytest

from inference_runtime.frontends.peer import is_loopback


class Transport:
    def __init__(self, address):
        self.address = address

    def get_extra_info(self, name):
        return self.address if name == "peername" else None


@pytest.mark.parametrize(
    ("address", "local"),
    [
        (("127.0.0.1", 5), True),
        (("127.8.9.1", 5), True),
        (("::1", 5, 0, 0), True),
        (("::ffff:127.0.0.1", 5, 0, 0), True),
        (("::ffff:10.0.0.1", 5, 0, 0), False),
        (("10.0.0.1", 5), False),
        (("fe80::1%eth0", 5, 0, 2), False),
        (("not an address", 5), False),
        ("", True),
        (None, False),
    ],
)
def test_who_is_on_this_machine(address, local):
    assert is_loopback(Transport(address)) is local
