"""Calls at the same moment, each on a thread with a database connection of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

Answer = TypeVar("Answer")


def at_once(calls: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Their answers in the order of the calls; what one of them raises is raised."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Answer]) -> Answer:
        gate.wait(10)
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        running = [pool.submit(run, call) for call in calls]
        return [each.result(60) for each in running]
