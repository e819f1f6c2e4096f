"""A short soak with the slow suite; the long one is `python -m tests.soak --minutes 20`."""

import pytest

from tests.soak.load import OPERATIONS
from tests.soak.run import soak

SECONDS = 40


@pytest.mark.slow
@pytest.mark.conformance
@pytest.mark.timeout(300)
def test_under_mixed_load_and_trouble_nothing_is_lost_doubled_or_kept(tmp_path):
    result = soak(tmp_path, seconds=SECONDS)
    assert result.findings.failures == [], result.summary()
    # Every kind of operation had its turn, and the trouble was real.
    for name in (*dict(OPERATIONS), "loads", "kills"):
        assert result.findings.answers[name] > 0, name
    assert (result.inflight, result.slots_in_use) == (0, 0)
    before, after = result.idle_before, result.idle_after
    assert after.children == before.children
    assert after.objects <= before.objects
    assert after.descriptors <= before.descriptors + 20  # connections that clients have just closed
