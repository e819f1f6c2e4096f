"""Gives the memory of what was unloaded back to the machine.

glibc keeps what is freed. Left to itself it also gives every thread of the load pool an arena of its
own, whose end `malloc_trim` does not reach, and takes the first freed weights of some 30 MB as a sign
to serve such sizes from the heap from then on: a copy or two of a model that is long gone stays.
"""

import ctypes
import logging
from collections.abc import Container
from typing import Any

logger = logging.getLogger(__name__)

_KEPT_BYTES = 16 << 20
# One arena, which can be trimmed whole: threads take turns at the interpreter anyway. What is bigger
# than the limit is mapped and unmapped by itself, so it must be above what requests carry: those would
# pay a page fault for every 4 KiB, twice the processor time of a request of 600 kB.
_SETTINGS = (
    ("MALLOC_ARENA_MAX", -8, 1),
    ("MALLOC_MMAP_THRESHOLD_", -3, _KEPT_BYTES),
    ("MALLOC_TRIM_THRESHOLD_", -1, _KEPT_BYTES),
)


def set_up_memory(already_set: Container[str]) -> None:
    """Once, before any thread is made; `already_set`: glibc's variables that the operator has set."""
    for variable, number, value in _SETTINGS:
        if variable not in already_set:
            _call("mallopt", number, value)


def return_free_memory() -> None:
    """Everything free goes back; blocking."""
    _call("malloc_trim", 0)


def _call(function: str, *arguments: Any) -> None:
    """Other C libraries have no such calls and no such habits."""
    try:
        getattr(ctypes.CDLL(None), function)(*arguments)
    except (AttributeError, OSError) as error:
        logger.debug("this C library manages its memory alone: %s", error)
