"""What one socket still has to send: the newest state per topic, numbered, paced, bounded. Pure."""

from dataclasses import dataclass
from typing import Any

MAX_TOPICS = 32
MAX_COALESCED = 64  # a watcher this far behind gets a snapshot instead of the newest delta
FRAME_INTERVAL_NS = 250_000_000  # four frames a second


@dataclass
class _Topic:
    seq: int = 0
    at: str = ""
    data: dict[str, Any] | None = None  # waiting to be sent
    waiting_since_ns: int = 0
    coalesced: int = 0
    told_at_ns: int = 0  # when a frame or a check last showed it current


class TooManyTopics(Exception):
    """The socket watches as many topics as it may."""


class LiveBuffer:
    """Holds at most one frame per topic, so a slow client costs a bounded amount of memory."""

    def __init__(self, *, max_topics: int = MAX_TOPICS) -> None:
        self._topics: dict[str, _Topic] = {}
        self._max_topics = max_topics
        self._next_frame_ns = 0
        self.dropped = 0  # events never sent because a newer one came first

    @property
    def topics(self) -> list[str]:
        return list(self._topics)

    def watch(self, topic: str) -> None:
        if topic in self._topics:
            return
        if len(self._topics) >= self._max_topics:
            raise TooManyTopics(topic)
        self._topics[topic] = _Topic()

    def unwatch(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def begin_snapshot(self, topic: str) -> None:
        """What waits now is older than the snapshot about to be read; what comes later is not."""
        if state := self._topics.get(topic):
            state.data = None
            state.coalesced = 0

    def snapshot(
        self, topic: str, *, at: str, data: dict[str, Any], now_ns: int
    ) -> dict[str, Any] | None:
        """The frame that starts the topic's numbers anew; None when nobody watches any more."""
        state = self._topics.get(topic)
        if state is None:
            return None
        state.seq = 1
        state.told_at_ns = now_ns
        return {"type": "snapshot", "topic": topic, "seq": 1, "at": at, "data": data}

    def put(self, topic: str, *, at: str, data: dict[str, Any], now_ns: int) -> None:
        state = self._topics.get(topic)
        if state is None:
            return
        if state.data is None:
            state.waiting_since_ns = now_ns
        else:
            state.coalesced += 1
            self.dropped += 1
        state.at, state.data = at, data

    def next_frame(self, *, now_ns: int) -> dict[str, Any] | None:
        """The longest waiting topic's newest state; None while the pace forbids or nothing waits.

        A topic that fell too far behind is skipped: see `behind`.
        """
        if now_ns < self._next_frame_ns:
            return None
        waiting = [
            (state.waiting_since_ns, topic)
            for topic, state in self._topics.items()
            if state.data is not None and state.coalesced < MAX_COALESCED
        ]
        if not waiting:
            return None
        _, topic = min(waiting)
        state = self._topics[topic]
        state.seq += 1
        frame = {
            "type": "delta",
            "topic": topic,
            "seq": state.seq,
            "at": state.at,
            "data": state.data,
        }
        state.data = None
        state.coalesced = 0
        state.told_at_ns = now_ns
        self._next_frame_ns = now_ns + FRAME_INTERVAL_NS
        return frame

    def behind(self) -> list[str]:
        """Topics whose watcher needs a fresh snapshot."""
        return [topic for topic, state in self._topics.items() if state.coalesced >= MAX_COALESCED]

    def quiet(self, *, now_ns: int, for_ns: int) -> list[str]:
        """Topics not heard of for `for_ns`: an event may have been lost, so look again."""
        return [
            topic
            for topic, state in self._topics.items()
            if state.data is None and now_ns - state.told_at_ns >= for_ns
        ]

    def checked(self, topic: str, *, now_ns: int) -> None:
        """Looked again, and nothing had changed."""
        if state := self._topics.get(topic):
            state.told_at_ns = now_ns

    def wait_ns(self, *, now_ns: int) -> int | None:
        """How long until a frame may go; None when nothing waits."""
        if all(state.data is None for state in self._topics.values()):
            return None
        return max(0, self._next_frame_ns - now_ns)
