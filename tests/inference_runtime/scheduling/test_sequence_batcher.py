"""Protocol 4.5: which sequences make a batch. No clock but the numbers, no instances."""

import numpy as np
import pytest

from inference_runtime.scheduling.dynamic_batcher import WaitUntil
from inference_runtime.scheduling.sequence_batcher import DirectBatcher, OldestBatcher, slots_for
from inference_runtime.scheduling.sequence_table import LiveSequence
from inference_runtime.spec.messages import InferRequest, RequestHead
from inference_runtime.spec.request_plan import RequestPlan
from inference_runtime.spec.sequence_config import (
    DirectStrategy,
    OldestStrategy,
    SequenceBatching,
)

MS = 1_000_000


def sequence(row, *, key=None, at=0, start=False, state=None):
    made = LiveSequence(row + 1)
    made.lane, made.row = 0, row
    head = RequestHead("m", "", (), sequence_id=row + 1, sequence_start=start)
    request = InferRequest(head, [], lambda *_: None, None, at)
    request.plan = RequestPlan(1, (), True, (), (), key, (), (), True)
    made.queue.append(request)
    if state is not None:
        made.state.values = (np.zeros(state),)
    return made


def fill(batcher, *sequences, now=0):
    for each in sequences:
        batcher.ready(each, now)
    return batcher


def rows_of(batcher, now=0):
    found = batcher.next_rows(now)
    if found is None or isinstance(found, WaitUntil):
        return found
    return [each.row if each is not None else None for each in found]


def direct(delay_ms=0, utilization=0.0, limit=4, **more):
    return DirectBatcher(DirectStrategy(delay_ms * MS, utilization), limit, **more)


def oldest(*preferred, delay_ms=0, limit=4, **more):
    return OldestBatcher(OldestStrategy(0, preferred, delay_ms * MS), limit, **more)


def test_direct_fills_up_to_the_highest_row_that_is_ready():
    batcher = fill(direct(), sequence(2), sequence(0))
    assert rows_of(batcher) == [0, None, 2]
    assert rows_of(batcher) is None
    assert not batcher


def test_direct_leaves_what_does_not_fit_the_first_for_the_next_batch():
    """Shapes that differ, or other optional inputs: their rows are filled, or cut off at the end."""
    batcher = fill(
        direct(),
        sequence(0, key="a"), sequence(1, key="b"), sequence(2, key="a"), sequence(3, key="b"),
    )  # fmt: skip
    assert rows_of(batcher) == [0, None, 2]
    assert rows_of(batcher) == [None, 1, None, 3]
    assert rows_of(batcher) is None


@pytest.mark.parametrize(
    ("delay_ms", "utilization", "ready", "waits"),
    [
        (0, 1.0, 1, False),
        (9, 0.0, 1, False),
        (9, 0.5, 1, True),
        (9, 0.5, 2, False),
        (9, 1.0, 3, True),
    ],
)
def test_direct_waits_only_with_a_delay_and_a_utilization(delay_ms, utilization, ready, waits):
    batcher = fill(direct(delay_ms, utilization), *(sequence(row) for row in range(ready)))
    if waits:
        assert rows_of(batcher, 8 * MS) == WaitUntil(9 * MS)
        assert len(rows_of(batcher, 9 * MS)) == ready
    else:
        assert len(rows_of(batcher)) == ready


@pytest.mark.parametrize("limit", [3, 5, 10, 25, 49, 100])
def test_direct_takes_the_utilization_for_the_number_of_slots_that_is_meant(limit):
    """In a config it has 32 bits: of 0.2 they make a little more."""
    for wanted in range(2, limit + 1):
        utilization = float(np.float32(wanted / limit))
        batcher = fill(direct(9, utilization, limit), *map(sequence, range(wanted - 1)))
        assert isinstance(rows_of(batcher), WaitUntil)
        fill(batcher, sequence(wanted - 1))
        assert len(rows_of(batcher)) == wanted


def test_direct_waits_from_the_oldest_request_on():
    batcher = fill(direct(9, 1.0), sequence(0, at=5 * MS), sequence(1, at=2 * MS))
    assert rows_of(batcher, 10 * MS) == WaitUntil(11 * MS)


def test_a_drain_waits_for_nobody():
    for batcher in (direct(9, 1.0), oldest(4, delay_ms=9)):
        fill(batcher, sequence(0))
        assert isinstance(rows_of(batcher), WaitUntil)
        batcher.hurry()
        assert rows_of(batcher) == [0]


def test_one_that_is_withdrawn_is_in_no_batch():
    for batcher in (direct(), oldest(4)):
        gone = sequence(1)
        fill(batcher, sequence(0), gone)
        batcher.withdraw(gone)
        batcher.withdraw(gone)
        assert rows_of(batcher) == [0]
        assert rows_of(batcher) is None


def test_oldest_takes_them_in_the_order_in_which_they_became_ready():
    batcher = fill(oldest(4), *(sequence(row) for row in (5, 1, 9, 0, 7)))
    assert rows_of(batcher) == [5, 1, 9, 0]
    assert rows_of(batcher) == [7]


def test_oldest_has_none_twice():
    batcher = oldest(4)
    once = sequence(0)
    fill(batcher, once, once)
    assert rows_of(batcher) == [0]


@pytest.mark.parametrize(
    ("preferred", "delay_ms", "ready", "sizes"),
    [
        ((4,), 0, 3, [3]),
        ((2, 4), 0, 3, [2, 1]),
        ((2, 4), 9, 3, [2]),
        ((2, 4), 9, 1, []),
        ((2,), 9, 5, [2, 2]),
        ((), 0, 3, [3]),
        ((), 9, 3, [3]),
    ],
)
def test_oldest_follows_the_rules_of_the_dynamic_batcher(preferred, delay_ms, ready, sizes):
    batcher = fill(oldest(*preferred, delay_ms=delay_ms), *(sequence(row) for row in range(ready)))
    found = []
    while isinstance(rows := rows_of(batcher), list):
        found.append(len(rows))
    assert found == sizes


def test_oldest_sends_all_when_the_delay_is_over_whatever_is_preferred():
    batcher = fill(oldest(2, 4, delay_ms=9), *(sequence(row) for row in range(3)))
    assert rows_of(batcher, 9 * MS) == [0, 1, 2]


def test_oldest_counts_the_delay_from_when_a_sequence_is_ready():
    """Not from when its request came: it may have waited long for the step before."""
    batcher = fill(oldest(4, delay_ms=9), sequence(0, at=0), now=100 * MS)
    assert rows_of(batcher, 105 * MS) == WaitUntil(109 * MS)


def test_oldest_closes_a_batch_before_one_that_does_not_fit():
    batcher = fill(
        oldest(4, delay_ms=9),
        sequence(0, key="a"), sequence(1, key="a"), sequence(2, key="b"), sequence(3, key="a"),
    )  # fmt: skip
    assert rows_of(batcher) == [0, 1]
    assert rows_of(batcher) == [2]
    assert isinstance(rows_of(batcher), WaitUntil)


@pytest.mark.parametrize("make", [direct, oldest])
def test_states_of_other_shapes_share_no_batch(make):
    batcher = fill(
        make(varying_states=True),
        sequence(0, state=(1, 3)),
        sequence(1, state=(1, 3)),
        sequence(2, state=(1, 5)),
        sequence(3, state=(1, 5), start=True),
    )
    assert rows_of(batcher) == [0, 1]
    assert [row for row in rows_of(batcher) if row is not None] == [2]
    assert [row for row in rows_of(batcher) if row is not None] == [3]


@pytest.mark.parametrize(
    ("strategy", "max_batch_size", "slots"),
    [
        (DirectStrategy(), 0, 1),
        (DirectStrategy(), 8, 8),
        (OldestStrategy(0, ()), 8, 8),
        (OldestStrategy(100, ()), 8, 100),
        (OldestStrategy(3, ()), 0, 3),
    ],
)
def test_slots_of_an_instance(strategy, max_batch_size, slots):
    assert slots_for(SequenceBatching(strategy, 1), max_batch_size) == slots
