"""Which state of a rollout may follow which, and which action a person may take in it. Pure."""

from enum import StrEnum

from webapp.rollouts.choices import RolloutState as S


class Move(StrEnum):
    """What a person asks for."""

    PAUSE = "pause"
    RESUME = "resume"
    ADVANCE = "advance"
    PROMOTE = "promote"
    ABORT = "abort"


TERMINAL_STATES: frozenset[str] = frozenset(
    {S.SUCCEEDED, S.ROLLED_BACK, S.ABORTED, S.SUPERSEDED, S.FAILED}
)
ACTIVE_STATES: frozenset[str] = frozenset(S.values) - TERMINAL_STATES
# The canary may have traffic that clients can feel.
EXPOSED_STATES: frozenset[str] = frozenset({S.PROGRESSING, S.PAUSED, S.PROMOTING, S.BAKING})

_ON = frozenset({S.PROGRESSING, S.PROMOTING, S.ROLLING_BACK, S.SUPERSEDED})
ALLOWED_MOVES: dict[str, frozenset[str]] = {
    S.PENDING: _ON | {S.INITIALIZING},
    S.INITIALIZING: _ON,
    S.PROGRESSING: _ON | {S.PAUSED},
    S.PAUSED: _ON | {S.PAUSED},
    S.PROMOTING: frozenset({S.BAKING, S.ROLLING_BACK}),
    S.BAKING: frozenset({S.SUCCEEDED, S.ROLLING_BACK}),
    S.ROLLING_BACK: frozenset({S.ROLLED_BACK, S.ABORTED, S.FAILED}),
    **{state: frozenset() for state in TERMINAL_STATES},
}

_RUNNING = frozenset({S.PROGRESSING, S.PAUSED})
ALLOWED_IN: dict[Move, frozenset[str]] = {
    Move.PAUSE: frozenset({S.PROGRESSING}),
    Move.RESUME: frozenset({S.PAUSED}),
    Move.ADVANCE: _RUNNING | {S.BAKING},
    Move.PROMOTE: _RUNNING,
    Move.ABORT: ACTIVE_STATES - {S.ROLLING_BACK},
}


def may_follow(state: str, target: str) -> bool:
    return target in ALLOWED_MOVES[state]


def moves_in(state: str) -> tuple[Move, ...]:
    return tuple(move for move in Move if state in ALLOWED_IN[move])
