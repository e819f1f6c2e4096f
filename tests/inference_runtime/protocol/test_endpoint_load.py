"""The header that tells gateways of a model's load."""

import pytest

from inference_runtime.protocol.endpoint_load import header_value

FULL = {"tokens_per": 64.0, "used": 3.0, "max": 12.0}


@pytest.mark.parametrize("missing", FULL)
def test_what_is_not_known_in_full_is_not_told(missing):
    blocks = {name: value for name, value in FULL.items() if name != missing}
    assert header_value("json", blocks) == b""


def test_a_cache_without_blocks_has_no_share_in_use():
    assert header_value("text", {**FULL, "max": 0.0}) == b""
