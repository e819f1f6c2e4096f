"""Answers by what was asked for, bounded in bytes; the least recently used go first. Event loop only.

A key holds the *load* that the answer came from: a version that is loaded anew finds nothing of its
older lives. What is kept are bytes of the cache's own, not views of a model's output.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import count, islice

from inference_runtime.spec.messages import InferResponse
from inference_runtime.telemetry.cache_stats import CacheCounters

# What an entry takes besides its data: keys, tuples, the objects around them (measured, rounded up).
ENTRY_BYTES = 640
OUTPUT_BYTES = 64
PARAMETER_BYTES = 384

Key = tuple[int, bytes]  # the load, the digest of the request


class ResponseCache:
    def __init__(self, size_bytes: int) -> None:
        self.counters = CacheCounters(size_bytes)
        self._entries: OrderedDict[Key, tuple[InferResponse, int]] = OrderedDict()
        self._by_load: dict[int, set[bytes]] = {}
        self._loads = count(1)

    def new_load(self) -> int:
        load = next(self._loads)
        self._by_load[load] = set()
        return load

    def find(self, key: Key) -> InferResponse | None:
        counters = self.counters
        counters.lookups += 1
        entry = self._entries.get(key)
        if entry is None:
            counters.misses += 1
            return None
        counters.hits += 1
        self._entries.move_to_end(key)
        return entry[0]

    def fits(self, response: InferResponse) -> bool:
        return size_of(response) <= self.counters.size_bytes

    def insert(self, key: Key, response: InferResponse) -> None:
        """Only what `fits`. An entry that is there stays: of two equal requests the first answer is kept."""
        load, digest = key
        digests = self._by_load.get(load)
        if digests is None or key in self._entries:
            return
        counters = self.counters
        size = size_of(response)
        while counters.used_bytes + size > counters.size_bytes:
            self._drop(next(iter(self._entries)))
            counters.evictions += 1
        kept = InferResponse(response.head, tuple(map(bytes, response.data)))
        self._entries[key] = (kept, size)
        digests.add(digest)
        counters.used_bytes += size
        counters.entries += 1

    def forget(self, load: int, most: int = 10_000) -> bool:
        """Drops entries of a load that has ended, so many at a time that nobody has to wait; False: all gone."""
        digests = self._by_load.get(load, set())
        for digest in list(islice(digests, most)):
            self._drop((load, digest))
        if digests:
            return True
        self._by_load.pop(load, None)
        return False

    def _drop(self, key: Key) -> None:
        _, size = self._entries.pop(key)
        self._by_load[key[0]].discard(key[1])
        self.counters.used_bytes -= size
        self.counters.entries -= 1

    def __iter__(self) -> Iterator[Key]:
        """The keys, those first that go first."""
        return iter(self._entries)


def size_of(response: InferResponse) -> int:
    """What an answer takes in the cache."""
    data = response.data
    size = ENTRY_BYTES + OUTPUT_BYTES * len(data) + sum(map(len, data))
    for name, value in response.head.parameters.items():
        # A character takes up to four bytes.
        size += PARAMETER_BYTES + 4 * (len(name) + len(str(value)))
    return size
