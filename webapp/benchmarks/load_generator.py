"""Keeps a number of requests in flight for a window and writes down how long each took."""

import asyncio
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from webapp.runtime_client.errors import RuntimeProblem
from webapp.runtime_client.load_client import LoadClient

MAX_LATENCIES = 1_000_000  # a window keeps no more; rates stay right, percentiles are of the first
_GRACE_SECONDS = 10.0  # for requests still out when the window closes
_ERROR_PAUSE_SECONDS = 0.02  # a server that refuses at once must not be hammered


@dataclass
class Load:
    """What one window of load saw on the client's side."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    latencies_ns: "array[int]" = field(default_factory=lambda: array("q"))
    errors: int = 0
    first_error: str = ""


async def run_window(
    client: LoadClient, *, concurrency: int, seconds: float, stopped: Callable[[], bool]
) -> Load:
    """A closed loop: each of `concurrency` callers sends its next request when the last is answered.

    Ends early when `stopped()` says so. A request that is out when time is up counts if its answer
    comes soon, so that slow models are measured too; the seconds counted include that wait.
    """
    load = Load()
    started, cpu_started = time.perf_counter_ns(), time.process_time()
    deadline = started + round(seconds * 1e9)
    callers = [
        asyncio.create_task(_call_until(client, deadline, load, stopped))
        for _ in range(concurrency)
    ]
    _, late = await asyncio.wait(callers, timeout=seconds + _GRACE_SECONDS)
    for caller in late:
        caller.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    load.errors += len(late)
    load.seconds = (time.perf_counter_ns() - started) / 1e9
    load.cpu_seconds = time.process_time() - cpu_started
    return load


async def _call_until(
    client: LoadClient, deadline_ns: int, load: Load, stopped: Callable[[], bool]
) -> None:
    while time.perf_counter_ns() < deadline_ns and not stopped():
        sent = time.perf_counter_ns()
        try:
            await client.call()
        except RuntimeProblem as problem:
            load.errors += 1
            load.first_error = load.first_error or problem.text
            await asyncio.sleep(_ERROR_PAUSE_SECONDS)
            continue
        if len(load.latencies_ns) < MAX_LATENCIES:
            load.latencies_ns.append(time.perf_counter_ns() - sent)
