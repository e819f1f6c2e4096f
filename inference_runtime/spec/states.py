"""States of a version: which there are, which moves are legal, and what the index says of them."""

import enum
from dataclasses import dataclass


class ModelState(enum.Enum):
    UNKNOWN = "UNKNOWN"
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


ALLOWED: dict[ModelState, frozenset[ModelState]] = {
    ModelState.UNKNOWN: frozenset({ModelState.LOADING}),
    ModelState.LOADING: frozenset({ModelState.READY, ModelState.UNAVAILABLE}),
    ModelState.READY: frozenset({ModelState.READY, ModelState.UNLOADING}),
    # A version can come back while its predecessor still finishes what it had accepted.
    ModelState.UNLOADING: frozenset({ModelState.UNAVAILABLE, ModelState.LOADING, ModelState.READY}),
    ModelState.UNAVAILABLE: frozenset({ModelState.LOADING, ModelState.UNAVAILABLE}),
}

UNLOADED = "unloaded"  # the one reason of UNAVAILABLE that is nobody's fault


def may_move(before: ModelState, after: ModelState) -> bool:
    return after in ALLOWED[before]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A row of the repository index; a model never loaded has a name only."""

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""
