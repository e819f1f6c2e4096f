"""The machine's CPU and memory, and this process' share of them, through psutil.

A reading is taken when somebody asks and the last one is old; nothing runs in between.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class HostReading:
    cpu_utilization: float  # 0..1 over the time since the reading before
    memory_total_bytes: int
    memory_used_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessReading:
    pid: int
    cpu_seconds: float
    memory_bytes: int
    at_ns: int


class HostMonitor:
    def __init__(
        self,
        *,
        interval_ns: int = 2_000_000_000,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._interval_ns = interval_ns
        self._clock = clock
        self._process = psutil.Process()
        self._host: HostReading | None = None
        self._host_at_ns = 0

    def host(self) -> HostReading:
        now_ns = self._clock()
        if self._host is None or now_ns - self._host_at_ns >= self._interval_ns:
            memory = psutil.virtual_memory()
            self._host = HostReading(
                # psutil remembers the counters of its last call: the first answer is 0.
                cpu_utilization=psutil.cpu_percent(interval=None) / 100,
                memory_total_bytes=memory.total,
                memory_used_bytes=memory.total - memory.available,
            )
            self._host_at_ns = now_ns
        return self._host

    def process(self) -> ProcessReading:
        times = self._process.cpu_times()
        return ProcessReading(
            pid=os.getpid(),
            cpu_seconds=times.user + times.system,
            memory_bytes=self._process.memory_info().rss,
            at_ns=self._clock(),
        )
