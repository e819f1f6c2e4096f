"""The buffer of one socket: newest wins, at a pace, in a bounded space."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from webapp.core.live import FRAME_INTERVAL_NS, MAX_COALESCED, LiveBuffer, TooManyTopics

S = 1_000_000_000


def watching(*topics: str) -> LiveBuffer:
    buffer = LiveBuffer()
    for topic in topics:
        buffer.watch(topic)
        buffer.snapshot(topic, at="t", data={"n": 0}, now_ns=0)
    return buffer


def put(buffer: LiveBuffer, topic: str, n: int, now_ns: int = 0) -> None:
    buffer.put(topic, at=f"t{n}", data={"n": n}, now_ns=now_ns)


def test_the_snapshot_is_number_one_and_deltas_follow():
    buffer = watching("a")
    put(buffer, "a", 1)
    frame = buffer.next_frame(now_ns=0)
    assert frame == {"type": "delta", "topic": "a", "seq": 2, "at": "t1", "data": {"n": 1}}


def test_the_newest_state_wins():
    buffer = watching("a")
    for n in range(1, 6):
        put(buffer, "a", n)
    assert buffer.next_frame(now_ns=0)["data"] == {"n": 5}
    assert buffer.next_frame(now_ns=10 * S) is None
    assert buffer.dropped == 4


def test_no_more_than_four_frames_a_second():
    buffer = watching("a", "b")
    sent = 0
    for tick in range(100):
        now = tick * S // 100
        put(buffer, "a", tick, now)
        put(buffer, "b", tick, now)
        sent += buffer.next_frame(now_ns=now) is not None
    assert sent == 4


def test_the_longest_waiting_topic_goes_first():
    buffer = watching("a", "b")
    put(buffer, "b", 1, now_ns=1)
    put(buffer, "a", 1, now_ns=2)
    put(buffer, "b", 2, now_ns=3)
    assert buffer.next_frame(now_ns=4)["topic"] == "b"
    assert buffer.next_frame(now_ns=4 + FRAME_INTERVAL_NS)["topic"] == "a"


def test_a_watcher_far_behind_gets_a_snapshot_instead():
    buffer = watching("a")
    for n in range(MAX_COALESCED + 1):
        put(buffer, "a", n)
    assert buffer.next_frame(now_ns=S) is None
    assert buffer.behind() == ["a"]
    buffer.begin_snapshot("a")
    assert buffer.behind() == []


def test_an_event_during_a_snapshot_follows_it():
    buffer = watching("a")
    buffer.begin_snapshot("a")
    put(buffer, "a", 9)
    assert buffer.snapshot("a", at="t", data={"n": 8}, now_ns=0)["seq"] == 1
    assert buffer.next_frame(now_ns=0)["data"] == {"n": 9}


def test_topics_are_bounded_and_forgotten():
    buffer = LiveBuffer(max_topics=1)
    buffer.watch("a")
    buffer.watch("a")
    with pytest.raises(TooManyTopics):
        buffer.watch("b")
    buffer.unwatch("a")
    buffer.watch("b")
    put(buffer, "a", 1)
    assert buffer.next_frame(now_ns=S) is None


def test_quiet_topics_are_looked_at_again():
    buffer = watching("a", "b")
    put(buffer, "b", 1, now_ns=7 * S)
    buffer.next_frame(now_ns=7 * S)
    assert buffer.quiet(now_ns=9 * S, for_ns=8 * S) == ["a"]
    buffer.checked("a", now_ns=9 * S)
    assert buffer.quiet(now_ns=9 * S, for_ns=8 * S) == []


def test_how_long_to_wait_is_known():
    buffer = watching("a")
    assert buffer.wait_ns(now_ns=0) is None
    put(buffer, "a", 1)
    buffer.next_frame(now_ns=0)
    put(buffer, "a", 2)
    assert buffer.wait_ns(now_ns=0) == FRAME_INTERVAL_NS


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, S // 2)), max_size=200
    )
)
def test_the_last_state_of_every_topic_arrives_in_order(events):
    buffer = watching("a", "b", "c")
    now, last = 0, {}
    seen: dict[str, list[dict[str, Any]]] = {}
    for topic, n, wait in events:
        now += wait
        put(buffer, topic, n, now)
        last[topic] = n
        if frame := buffer.next_frame(now_ns=now):
            seen.setdefault(frame["topic"], []).append(frame)
    for _ in range(4):
        now += FRAME_INTERVAL_NS
        for topic in buffer.behind():
            buffer.begin_snapshot(topic)
            last.pop(topic)
        if frame := buffer.next_frame(now_ns=now):
            seen.setdefault(frame["topic"], []).append(frame)
    for topic, n in last.items():
        assert seen[topic][-1]["data"] == {"n": n}
        assert [frame["seq"] for frame in seen[topic]] == list(range(2, 2 + len(seen[topic])))
