"""Section 9.8 of the compliance checklist: which requests are executed together, when, and who must not wait.

Time is asserted only where it is the point, and then only that it has passed. Requests of models that wait
FOREVER for company show by being answered that they did not wait; a gate shows what gathers while its only
instance is busy.
"""

import time
from concurrent.futures import wait

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.batching_models import (
    ROWS,
    batching,
    crowd,
    write_batcher,
    write_gate,
)
from tests.conformance.clients import KINDS
from tests.conformance.metrics_page import metric, wait_pending
from tests.inference_runtime.routing.ensembles import step, write_ensemble
from tests.onnx_models import ragged_sums, write_model

pytestmark = pytest.mark.conformance
ANSWER_SECONDS = 30
DELAY = 1.0
LONG_DELAY = 4.0  # long enough for several requests to be sent meanwhile
EXPIRED = "Request timeout expired"
REJECT = "timeout_action: REJECT default_timeout_microseconds"
DEFER = "timeout_action: DELAY default_timeout_microseconds"
MAX_LEVEL = 2**64 - 1
DEFAULT_LEVEL = 2**33
RAGGED = f"""
max_batch_size: {ROWS}
input {{ name: "X" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true }}
output {{ name: "SUM" data_type: TYPE_FP32 dims: [1] }}
output {{ name: "DOUBLE" data_type: TYPE_FP32 dims: [-1] }}
batch_input {{ kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "ENDS"
  data_type: TYPE_INT32 source_input: "X" }}
batch_output {{ target_name: "DOUBLE" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }}
{batching([2])}
"""


def write_batchers(path):
    """Their names."""
    gates = set(path.iterdir())
    write_batcher(path, "batcher", [2, 6])
    write_batcher(path, "delayed", [2, 6], DELAY)
    write_batcher(path, "long_delayed", [2, 6], LONG_DELAY)
    write_batcher(path, "optional", of_input="optional: true")
    write_batcher(path, "rejects", policy=f"{REJECT}: 3000000")
    write_batcher(path, "defers", policy=f"{DEFER}: 50000")
    write_batcher(path, "defers_delayed", delay=5, policy=f"{DEFER}: 50000")
    override = "allow_timeout_override: true"
    write_batcher(path, "patient", policy=f"{REJECT}: 900000000 {override}")
    write_batcher(path, "impatient", policy=f"{REJECT}: 200000 {override}")
    write_batcher(path, "stubborn", policy=f"{REJECT}: 900000000")
    write_batcher(path, "timeless", policy=override)
    levels = "priority_levels: 2 default_priority_level: 2"
    write_batcher(path, "levels", [4], more=levels)
    write_model(path, "ragged", ragged_sums(), config=RAGGED)
    write_late_ensemble(path)
    return [each.name for each in path.iterdir() if each not in gates]


def write_late_ensemble(path):
    write_batcher(path, "late", policy=f"{REJECT}: 50000")
    names = {name: name for name in ("INPUT0", "INPUT1")}
    floats = "data_type: TYPE_FP32 dims: [-1]"
    write_ensemble(
        path,
        "around_late",
        step("late", names, {"OUTPUT0": "OUTPUT0"}),
        inputs=dict.fromkeys(names, floats),
        outputs={"OUTPUT0": floats},
        more=f"max_batch_size: {ROWS}",
    )


def write_gates(path):
    patience = f"{REJECT}: 900000000 allow_timeout_override: true"
    write_gate(path, "gate", batching([2, 6], policy=patience))
    write_gate(path, "gate_short", batching([2, 6], 0.05))
    write_gate(path, "gate_4", batching([4], 0))
    write_gate(path, "gate_4_6", batching([4, 6], 0))
    write_gate(path, "gate_bounded", batching([4, 8], policy="max_queue_size: 8"))
    levels = f"priority_levels: {MAX_LEVEL} default_priority_level: {DEFAULT_LEVEL}"
    write_gate(path, "gate_levels", batching(delay=0, more=levels), rows=1)
    write_gate(path, "gate_single", "")
    for name, ordered in (("gate_ordered", "true"), ("gate_free", "false")):
        write_gate(path, name, batching([4], more=f"preserve_ordering: {ordered}"), instances=2)
    for name, ordered in (("late_ordered", "true"), ("late_free", "false")):
        config = batching(delay=0, more=f"preserve_ordering: {ordered}")
        write_gate(path, name, config, source="late_gate.py")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_gates(path)
    return path


@pytest.fixture(scope="module")
def options(repository):
    """Gates, which are processes, are loaded by the tests that need them."""
    loads = [f"--load-model={name}" for name in write_batchers(repository)]
    return ["--disable-auto-complete-config", *loads]


@pytest.fixture
def people(server, repository):
    with crowd(server, repository) as people:
        yield people


def answers(*futures):
    return [future.result(ANSWER_SECONDS) for future in futures]


def failure(future):
    """The text of a request that the scheduler gave up."""
    error = future.exception(ANSWER_SECONDS)
    assert isinstance(error, InferenceServerException), error
    assert error.status() in ("503", "StatusCode.UNAVAILABLE")
    return error.message()


# 124: preferred sizes 2 and 6, and a delay


def test_check_124_2_then_6_go_at_once(people):
    with people.batches("batcher", {2: 1, 6: 1}):
        for rows in (2, 6):
            answers(people.send("batcher", rows))


@pytest.mark.parametrize("rows", [1, 3])
def test_check_124_a_size_that_nobody_prefers_waits(people, rows):
    with people.batches("delayed", {rows: 1}):
        [sent] = answers(people.send("delayed", rows))
    assert sent.seconds >= DELAY


def test_check_124_7_goes_at_once(people):
    with people.batches("batcher", {7: 1}):
        answers(people.send("batcher", 7))


def test_check_124_1_and_3_go_together_when_the_first_has_waited(people):
    with people.batches("long_delayed", {4: 1}):
        first, _ = answers(*people.queue("long_delayed", 1, 3))
    assert first.seconds >= LONG_DELAY


def test_check_124_another_shape_sends_what_has_gathered(people):
    with people.batches("batcher", {4: 1, 2: 1}):
        gathered = people.queue("batcher", 1, 3)
        odd = people.send("batcher", 1, width=5)
        answers(*gathered)
        wait_pending(people.server, "batcher", 1)
        answers(odd, people.send("batcher", 1, width=5))


@pytest.mark.slow
def test_check_124_another_shape_waits_for_its_own_delay(people):
    with people.batches("long_delayed", {4: 1, 1: 1}):
        gathered = people.queue("long_delayed", 1, 3)
        [odd] = answers(people.send("long_delayed", 1, width=5))
        answers(*gathered)
    assert odd.seconds >= LONG_DELAY


def test_check_124_3_then_7_go_separately_at_once(people):
    with people.batches("batcher", {3: 1, 7: 1}):
        answers(*people.queue("batcher", 3), people.send("batcher", 7))


def test_check_124_3_goes_at_once_when_4_comes_which_waits(people):
    with people.batches("batcher", {3: 1, 6: 1}):
        first = people.queue("batcher", 3)
        second = people.send("batcher", 4)
        answers(*first)
        wait_pending(people.server, "batcher", 1)
        answers(second, people.send("batcher", 2))


@pytest.mark.parametrize(("count", "expected"), [(6, {6: 1}), (3, {2: 2})])
def test_check_124_ones_that_are_queued_together(people, count, expected):
    with people.batches("gate", {ROWS: 1, **expected}):
        with people.closed_gate("gate"):
            sent = people.queue("gate", *[1] * count)
        if count == 3:  # two of them are answered; the third waits for company
            answers(*sent[:2])
            wait_pending(people.server, "gate", 1)
            sent.append(people.send("gate", 1))
        answers(*sent)


def test_check_124_a_delay_that_has_passed_beats_preferred_sizes(people):
    with people.batches("gate_short", {ROWS: 2}):
        with people.closed_gate("gate_short"):
            sent = people.queue("gate_short", 3, 4)
            time.sleep(0.1)
            sent.append(people.send("gate_short", 1))
            wait_pending(people.server, "gate_short", 3)
        answers(*sent)


@pytest.mark.parametrize(
    ("model", "count", "expected"),
    [("gate_4", 5, {4: 1, 1: 1}), ("gate_4_6", 7, {6: 1, 1: 1})],
)
def test_check_124_without_a_delay_the_best_size_goes_first(people, model, count, expected):
    with people.batches(model, {ROWS: 1, **expected}):
        with people.closed_gate(model):
            sent = people.queue(model, *[1] * count)
        orders = [each.order for each in answers(*sent)]
    assert orders == sorted(orders)


# 125 to 128: what may share a batch, and the order of answers


def test_check_125_different_outputs_do_not_matter(people):
    asked = [("OUTPUT0",), ("OUTPUT1",), ("OUTPUT0", "OUTPUT1"), ("OUTPUT1", "OUTPUT0"), ()]
    with people.batches("gate", {ROWS: 1, 6: 1}):
        with people.closed_gate("gate"):
            sent = [people.send("gate", value=n, outputs=names) for n, names in enumerate(asked)]
            sent.append(people.send("gate"))
            wait_pending(people.server, "gate", 6)
        found = answers(*sent)
    for number, names in enumerate(asked):
        for place, name in enumerate(("OUTPUT0", "OUTPUT1")):
            array = found[number].output(name)
            if names and name not in names:
                assert array is None
            else:
                np.testing.assert_array_equal(array, np.full((1, 4), number + place))


def test_check_126_ragged_inputs_share_an_execution(people):
    with people.batches("ragged", {2: 1}):
        sent = [people.send("ragged", width=width, names=("X",)) for width in (16, 8)]
        long, short = answers(*sent)
    assert (long.output("SUM").tolist(), short.output("SUM").tolist()) == ([[16]], [[8]])
    np.testing.assert_array_equal(short.output("DOUBLE"), np.full((1, 8), 2))


def test_check_127_other_optional_inputs_make_another_batch(people):
    def send(place, rows=1):
        return people.send("optional", rows, names=[f"INPUT{place}"], outputs=[f"OUTPUT{place}"])

    with people.batches("optional", {1: 3, ROWS: 1}):
        sent = []
        for number in range(4):
            sent.append(send(number % 2))
            answers(*sent[-2:-1])  # the one before does not wait any longer
            wait_pending(people.server, "optional", 1)
        answers(sent[3], send(1, ROWS - 1))


@pytest.mark.parametrize("model", ["gate_ordered", "gate_free"])
def test_check_128_answers_come_in_the_order_of_requests_where_that_is_wanted(people, model):
    people.close_gate(model)
    with people.batches(model, {4: 3}):
        first = [people.send(model, value=-1) for _ in range(4)]
        people.wait_running(model, 4)
        later = [people.send(model) for _ in range(8)]  # two executions, which overtake the first
        people.server.wait_for(lambda: len(people.ran(model)) == 2, "two executions")
        if model == "gate_free":
            answers(*later)
        else:
            assert not wait(later, timeout=0.5).done
        assert not wait(first, timeout=0).done
        people.open_gate(model)
        answers(*first, *later)


@pytest.mark.parametrize("model", ["late_ordered", "late_free"])
def test_check_128_answers_that_a_model_sends_late_keep_that_order(people, model):
    people.close_gate(model)
    with people.batches(model, {1: 2}):
        first = people.send(model, value=-1)
        people.wait_running(model, 1)
        second = people.send(model)
        people.server.wait_for(lambda: len(people.ran(model)) == 1, "an answer that was sent")
        if model == "late_free":
            answers(second)
        else:
            assert not wait([second], timeout=0.5).done
        assert not first.done()
        people.open_gate(model)
        answers(first, second)


# 129 to 136: bounds, timeouts, priorities


def test_check_129_a_full_queue_refuses(people):
    model = "gate_bounded"
    with people.batches(model, {ROWS: 2}):
        with people.closed_gate(model):
            sent = [people.send(model) for _ in range(10)]
            people.server.wait_for(lambda: sum(each.done() for each in sent) == 2, "two refusals")
            wait_pending(people.server, model, 8)
            refused = [each for each in sent if each.done()]
        for each in refused:
            assert failure(each) == "[request id: <id_unknown>] Exceeds maximum queue size"
        answers(*[each for each in sent if each not in refused])


def test_check_130_who_waits_too_long_is_rejected(people):
    with people.batches("rejects", {ROWS: 1}):
        sent = [people.send("rejects", kind=kind) for kind in KINDS]
        assert [failure(each) for each in sent] == [EXPIRED] * len(KINDS)
        answers(*[people.send("rejects", 4) for _ in range(2)])


def test_check_130_although_the_instance_is_busy(people):
    with people.batches("gate", {ROWS: 2}):
        with people.closed_gate("gate"):
            assert failure(people.send("gate", timeout=100_000)) == EXPIRED
        answers(people.send("gate", ROWS))


def test_check_131_who_waits_too_long_lets_others_pass(people):
    with people.batches("defers", {ROWS: 2}):
        [first] = people.queue("defers", 1)
        time.sleep(0.2)
        answers(*[people.send("defers", 4) for _ in range(2)])
        assert not first.done()
        answers(first, people.send("defers", 7))


@pytest.mark.slow
def test_check_131_and_is_executed_when_its_delay_has_passed(people):
    with people.batches("defers_delayed", {ROWS: 1, 1: 1}):
        [first] = people.queue("defers_delayed", 1)
        time.sleep(0.2)
        answers(*[people.send("defers_delayed", 4) for _ in range(2)])
        [late] = answers(first)
    assert late.seconds >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_check_132_a_request_may_ask_for_less_patience(people, kind):
    assert failure(people.send("patient", kind=kind, timeout=100_000)) == EXPIRED


@pytest.mark.parametrize("kind", KINDS)
def test_check_132_a_request_may_not_ask_for_more_patience(people, kind):
    assert failure(people.send("impatient", kind=kind, timeout=900_000_000)) == EXPIRED


@pytest.mark.parametrize("model", ["stubborn", "timeless"])
def test_check_132_where_nothing_may_be_asked_for_or_there_is_no_timeout(people, model):
    with people.batches(model, {ROWS: 1}):
        [first] = people.queue(model, 1, timeout=50_000)
        assert not wait([first], timeout=0.3).done
        answers(first, people.send(model, ROWS - 1, timeout=50_000_000))


def test_check_133_a_higher_priority_joins_the_first(people):
    with people.batches("levels", {4: 2}):
        first, second = people.queue("levels", 2, 1)
        answers(people.send("levels", 2, priority=1), first)
        assert not second.done()
        answers(second, people.send("levels", 3))


def test_check_134_levels_are_64_bits_wide(people):
    model = "gate_levels"
    levels = [DEFAULT_LEVEL + 1, 2**32 + 5, 0, MAX_LEVEL, DEFAULT_LEVEL - 1, DEFAULT_LEVEL]
    with people.batches(model, {1: 1 + 2 * len(levels)}):
        with people.closed_gate(model, rows=1):
            sent = []
            for count, level in enumerate([*levels, *levels], 1):
                kind = "grpc" if count > len(levels) else "http"
                sent.append(people.send(model, kind=kind, priority=level))
                wait_pending(people.server, model, count)
        orders = [each.order for each in answers(*sent)]
    effective = [level or DEFAULT_LEVEL for level in [*levels, *levels]]
    executed = sorted(range(len(orders)), key=lambda place: orders[place])
    # By level, and in a level as they came.
    assert executed == sorted(executed, key=lambda place: (effective[place], place))


def failures_of(server, model, reason):
    return metric(server, "nv_inference_request_failure", model, reason=reason)


def test_check_135_timeouts_are_counted_as_rejected(people):
    server = people.server
    before = failures_of(server, "late", "REJECTED"), failures_of(server, "around_late", "OTHER")
    for kind in KINDS:
        assert failure(people.send("late", kind=kind)) == EXPIRED
    text = f"in ensemble 'around_late', {EXPIRED}"
    for kind in KINDS:
        assert failure(people.send("around_late", kind=kind)) == text
    after = failures_of(server, "late", "REJECTED"), failures_of(server, "around_late", "OTHER")
    # One request, one end: Triton counts a failed request of an ensemble twice.
    assert (after[0] - before[0], after[1] - before[1]) == (8, 4)
    for reason in ("BACKEND", "CANCELED"):
        assert (
            failures_of(server, "late", reason) == failures_of(server, "around_late", reason) == 0
        )


def test_check_136_without_dynamic_batching_nothing_is_combined(people):
    with people.batches("gate_single", {1: 11}):
        with people.closed_gate("gate_single", rows=1):
            sent = people.queue("gate_single", *[1] * 10)
        orders = [each.order for each in answers(*sent)]
    assert orders == sorted(set(orders))
