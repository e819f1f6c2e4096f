"""The requests of one version that wait: by priority level, bounded, with an end to their patience.

Pure: time comes in with the requests and with `expire`. Service order is level by level from 1; inside a
level first come, first served, and behind them those whose timeout has passed under the DELAY policy.
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain, islice

from inference_runtime.spec.messages import InferRequest
from inference_runtime.spec.model_config import DynamicBatching, QueuePolicy, TimeoutAction

# Of levels that nobody waits in, so many are kept: a client may name a new one with every request.
_MOST_LEVELS = 64
# What has left stays in its level until it is an eighth, and this many: one pass takes all of it out.
_FEWEST_GONE = 8


class _Level:
    __slots__ = ("delayed", "limit", "policy", "prompt", "timeout_ns")

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.limit = policy.max_queue_size
        self.timeout_ns = policy.default_timeout_ns
        self.prompt: deque[InferRequest] = deque()
        self.delayed: deque[InferRequest] = deque()


class RequestQueue:
    """`size` is what `len` says, for hot paths. `revision` changes whenever the service order changes
    otherwise than by an arrival at its very end."""

    def __init__(self, batching: DynamicBatching | None = None) -> None:
        self._batching = batching
        self._levels: dict[int, _Level] = {}
        self._order: list[_Level] = []  # by level
        self._only: _Level | None = None
        if batching is None:
            self._only = self._add_level(0, QueuePolicy())
        elif batching.priority_levels == 0:
            self._only = self._add_level(0, batching.default_queue_policy)
        self.size = 0
        self._gone: set[InferRequest] = set()  # removed, and still in their levels
        self.revision = 0
        self.next_expiry_ns = 0  # no request expires before; 0: none ever does

    def __len__(self) -> int:
        return self.size

    def push(self, request: InferRequest) -> bool:
        """False: the request's level is full."""
        level = self._only or self._level_of(request)
        if level.limit and len(level.prompt) + len(level.delayed) >= level.limit:
            if not self._gone:
                return False
            self._sweep()
            return self.push(request)
        if level.timeout_ns or request.deadline_ns:
            self._set_expiry(request, level)
        level.prompt.append(request)
        self.size += 1
        if level.delayed or level is not self._order[-1]:
            self.revision += 1
        return True

    def waiting(self, position: int = 0) -> Iterator[InferRequest]:
        """In service order, from `position` on."""
        if self._gone:
            self._sweep()
        if self._only is not None and not self._only.delayed:
            return islice(self._only.prompt, position, None)
        ordered = chain.from_iterable(chain(level.prompt, level.delayed) for level in self._order)
        return islice(ordered, position, None)

    def take(self, count: int) -> list[InferRequest]:
        """Removes the first `count` in service order."""
        if self._gone:
            self._sweep()
        self.size -= count
        self.revision += 1
        if self._only is not None and not self._only.delayed:
            prompt = self._only.prompt
            if count == len(prompt):
                every = list(prompt)
                prompt.clear()
                return every
            popleft = prompt.popleft
            return [popleft() for _ in range(count)]
        taken: list[InferRequest] = []
        for level in self._order:
            for requests in (level.prompt, level.delayed):
                while requests and len(taken) < count:
                    taken.append(requests.popleft())
        return taken

    def remove(self, request: InferRequest) -> None:
        """One that waits. Thousands may leave at once: none of them is looked for among all the others."""
        self._gone.add(request)
        self.size -= 1
        self.revision += 1
        if not self.size or len(self._gone) > self.size // 8 + _FEWEST_GONE:
            self._sweep()

    def _sweep(self) -> None:
        gone, self._gone = self._gone, set()
        for level in self._order:
            level.prompt = deque(r for r in level.prompt if r not in gone)
            level.delayed = deque(r for r in level.delayed if r not in gone)

    def expire(self, now_ns: int) -> list[InferRequest]:
        """Removes and returns the requests that may not wait longer; puts others back as their policy says."""
        if not self.next_expiry_ns or now_ns < self.next_expiry_ns:
            return []
        if self._gone:
            self._sweep()
        expired: list[InferRequest] = []
        for level in self._order:
            self._expire_level(level, now_ns, expired)
        self.size -= len(expired)
        self.revision += 1
        self.next_expiry_ns = min(
            (request.expires_ns for request in self.waiting() if request.expires_ns), default=0
        )
        return expired

    def _expire_level(self, level: _Level, now_ns: int, expired: list[InferRequest]) -> None:
        late = [r for r in level.prompt if r.expires_ns and r.expires_ns <= now_ns]
        late += [r for r in level.delayed if r.expires_ns and r.expires_ns <= now_ns]
        if not late:
            return
        gone = set(late)
        level.prompt = deque(r for r in level.prompt if r not in gone)
        level.delayed = deque(r for r in level.delayed if r not in gone)
        delays = level.policy.timeout_action is TimeoutAction.DELAY
        for request in late:
            if delays and not (request.deadline_ns and request.deadline_ns <= now_ns):
                request.expires_ns = request.deadline_ns
                level.delayed.append(request)
            else:
                expired.append(request)

    def _set_expiry(self, request: InferRequest, level: _Level) -> None:
        timeout_ns = level.timeout_ns
        if timeout_ns and level.policy.allow_timeout_override:
            # Only a shorter wait may be asked for; 0 asks for nothing.
            timeout_ns = min(request.head.timeout_us * 1000 or timeout_ns, timeout_ns)
        ends = [request.deadline_ns] if request.deadline_ns else []
        if timeout_ns:
            ends.append(request.received_ns + timeout_ns)
        expires_ns = request.expires_ns = min(ends)
        if not self.next_expiry_ns or expires_ns < self.next_expiry_ns:
            self.next_expiry_ns = expires_ns

    def _level_of(self, request: InferRequest) -> _Level:
        batching = self._batching
        assert batching is not None
        number = request.head.priority
        if not 1 <= number <= batching.priority_levels:
            number = batching.default_priority_level
        level = self._levels.get(number)
        if level is None:
            # Levels are made as they are met: a config may name 2^64 of them.
            if len(self._levels) >= _MOST_LEVELS:
                self._drop_empty_levels()
            level = self._add_level(number, batching.queue_policy(number))
        return level

    def _drop_empty_levels(self) -> None:
        self._levels = {
            key: level for key, level in self._levels.items() if level.prompt or level.delayed
        }

    def _add_level(self, number: int, policy: QueuePolicy) -> _Level:
        level = self._levels[number] = _Level(policy)
        self._order = [self._levels[key] for key in sorted(self._levels)]
        return level
