"""The task is a thin call to the service, and the schedule asks for it every second."""

import pytest

from workers.schedules import EVERY
from workers.tasks.rollouts import rollouts_tick


def test_without_rollouts_a_turn_does_nothing(db: None) -> None:
    assert rollouts_tick() is None


def test_it_is_due_every_second_and_expires_before_the_next() -> None:
    (every,) = [every for every in EVERY if every.task == rollouts_tick.name]
    assert every.seconds == pytest.approx(1)
    assert every.expires < every.seconds
