from typing import Any

import pytest

from webapp.benchmarks.load_plan import DEFAULT_LADDER, BadPlan, load_plan


def plan(**changes: object):
    values: dict[str, Any] = {"concurrency": [4, 1, 2, 2], "window_seconds": 1, "batch_size": None}
    return load_plan(**{**values, **changes})


def test_the_ladder_is_sorted_without_repeats() -> None:
    assert plan().ladder == (1, 2, 4)
    assert plan(concurrency=None).ladder == DEFAULT_LADDER


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"concurrency": []}, "concurrency"),
        ({"concurrency": [0]}, "between 1 and"),
        ({"concurrency": [10_000]}, "between 1 and"),
        ({"concurrency": ["8"]}, "whole numbers"),
        ({"concurrency": [True]}, "whole numbers"),
        ({"concurrency": list(range(1, 40))}, "1 to 16"),
        ({"window_seconds": 0}, "window_seconds"),
        ({"window_seconds": 1e9}, "window_seconds"),
        ({"window_seconds": float("nan")}, "window_seconds"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1.5}, "batch_size"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(BadPlan, match=word):
        plan(**changes)


def test_the_longest_a_plan_can_take_is_known_before_it_starts() -> None:
    assert plan(window_seconds=2).longest_seconds == 3 * 10 * 2
