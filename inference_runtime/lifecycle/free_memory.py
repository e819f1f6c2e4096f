"""Gives the memory of what was unloaded back to the machine."""

import ctypes
import logging

logger = logging.getLogger(__name__)


def return_free_memory() -> None:
    """glibc keeps what is freed, so that load after load the process would look, and be, bigger; blocking.

    Other C libraries have no such call and no such habit.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError) as error:
        logger.debug("this C library keeps its memory: %s", error)
