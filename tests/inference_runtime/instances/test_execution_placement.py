"""Where batches run, from measured times alone."""

import pytest

from inference_runtime.instances.execution_placement import (
    FIRST_SAMPLES,
    MOST_SAMPLES,
    STALL_NS,
    ExecutionPlace,
    ExecutionPlacement,
)

US = 1000
MS = 1_000_000


def run(placement: ExecutionPlacement, rows: int, took_ns: int, times: int = 1) -> list[bool]:
    """Executes batches that take that long, wherever they are sent; says where each ran."""
    places = []
    for _ in range(times):
        inline = placement.inline(rows)
        placement.measured(rows, took_ns, inline=inline)
        places.append(inline)
    return places


def test_begins_in_the_thread_and_moves_a_cheap_size_to_the_loop():
    placement = ExecutionPlacement()
    places = run(placement, 1, 20 * US, FIRST_SAMPLES + 5)
    assert places == [False] * FIRST_SAMPLES + [True] * 5


def test_a_dear_model_stays_in_the_thread():
    placement = ExecutionPlacement()
    assert not any(run(placement, 1, 2 * MS, 1000))


def test_waits_for_the_interpreter_lock_do_not_hide_a_cheap_model():
    placement = ExecutionPlacement()
    for took_ns in [5 * MS, 3 * MS, 4 * MS, 30 * US, 5 * MS, 5 * MS, 5 * MS, 5 * MS]:
        placement.measured(1, took_ns, inline=False)
    assert placement.inline(1)


def test_larger_batches_of_a_cheap_model_run_inline_when_the_guess_allows_it():
    placement = ExecutionPlacement()
    run(placement, 1, 5 * US, FIRST_SAMPLES)
    assert placement.inline(32)  # at most 5 × 32 = 160 µs


def test_a_larger_batch_that_may_be_dear_is_measured_in_the_thread_first():
    placement = ExecutionPlacement()
    run(placement, 1, 40 * US, FIRST_SAMPLES)
    assert placement.inline(1)
    assert not placement.inline(32)
    run(placement, 32, 100 * US, FIRST_SAMPLES)
    assert placement.inline(32)


def test_small_batches_may_run_inline_while_large_ones_do_not():
    placement = ExecutionPlacement()
    run(placement, 1, 100 * US, FIRST_SAMPLES)
    run(placement, 32, 3 * MS, FIRST_SAMPLES)
    assert placement.inline(1)
    assert not placement.inline(32)
    assert not placement.inline(64)


def test_one_slow_run_on_the_loop_is_forgiven():
    placement = ExecutionPlacement()
    run(placement, 1, 50 * US, FIRST_SAMPLES)
    assert run(placement, 1, 50 * MS) == [True]
    assert placement.inline(1)


def test_one_run_that_stalls_the_loop_keeps_the_model_off_it_for_long():
    placement = ExecutionPlacement()
    run(placement, 1, 50 * US, FIRST_SAMPLES)
    assert run(placement, 1, STALL_NS) == [True]
    assert run(placement, 1, 50 * US, 2 * MOST_SAMPLES).index(True) == MOST_SAMPLES


def test_slow_runs_on_the_loop_move_it_back_and_the_next_try_takes_longer():
    placement = ExecutionPlacement()
    run(placement, 1, 50 * US, FIRST_SAMPLES)
    while placement.inline(1):
        run(placement, 1, 5 * MS)
    assert run(placement, 1, 50 * US, 3 * FIRST_SAMPLES).index(True) == 2 * FIRST_SAMPLES
    while placement.inline(1):
        run(placement, 1, 5 * MS)
    assert run(placement, 1, 50 * US, 5 * FIRST_SAMPLES).index(True) == 4 * FIRST_SAMPLES


def test_between_the_two_limits_nothing_moves():
    placement = ExecutionPlacement()
    run(placement, 1, 100 * US, FIRST_SAMPLES)
    assert all(run(placement, 1, 400 * US, 200))


def test_several_instances_ask_for_a_cheaper_model():
    placement = ExecutionPlacement(instances=3)
    assert not any(run(placement, 1, 150 * US, 100))
    assert any(run(ExecutionPlacement(instances=3), 1, 50 * US, 100))


@pytest.mark.parametrize(
    ("place", "inline"), [(ExecutionPlace.INLINE, True), (ExecutionPlace.THREAD, False)]
)
def test_the_configs_word_is_final(place, inline):
    placement = ExecutionPlacement(place)
    assert set(run(placement, 1, 10 * US if not inline else 10 * MS, 100)) == {inline}


def test_a_much_larger_input_is_measured_in_the_thread_before_it_may_stop_the_loop():
    placement = ExecutionPlacement(by_bytes=True)
    for _ in range(FIRST_SAMPLES):
        placement.measured(1, 20 * US, inline=False, input_bytes=64)
    assert placement.inline(1, 64)
    assert placement.inline(1, 120)  # a little more: at most four times the time
    assert not placement.inline(1, 1 << 20)


def test_many_short_rows_do_not_count_as_one_long_row():
    placement = ExecutionPlacement(by_bytes=True)
    for _ in range(FIRST_SAMPLES):
        placement.measured(1, 20 * US, inline=False, input_bytes=64)
    assert placement.inline(8, 8 * 64)
    assert not placement.inline(1, 8 * 64)


def test_a_long_input_that_proved_dear_does_not_keep_short_ones_off_the_loop():
    placement = ExecutionPlacement(by_bytes=True)
    for size, took_ns in ((64, 20 * US), (1 << 20, 30 * MS)):
        for _ in range(FIRST_SAMPLES):
            placement.measured(1, took_ns, inline=False, input_bytes=size)
    assert placement.inline(1, 64)
    assert not placement.inline(1, 1 << 20)
    assert not placement.inline(1, 1 << 21)
