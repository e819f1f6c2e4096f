"""Every target takes its seeds, pieces of them and any bytes; the fuzzer itself is run by hand."""

import pytest
from hypothesis import given, settings, strategies as st

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_what_is_left_of_them_are_taken(name):
    target = TARGETS[name]
    for seed in target.seeds:
        for end in range(0, len(seed) + 1, max(len(seed) // 40, 1)):
            target.run(seed[:end])
            target.run(seed[end:])


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_are_taken(name, data):
    target = TARGETS[name]
    seed = data.draw(st.sampled_from(target.seeds))
    at = data.draw(st.integers(0, len(seed)))
    target.run(seed[:at] + data.draw(st.binary(max_size=64)) + seed[at:])
