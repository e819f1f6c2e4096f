"""Section 9.9 of the compliance checklist: sequences, their controls, and implicit state."""

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import Client
from tests.conformance.repeat_model import open_stream
from tests.conformance.runtime_process import runtime
from tests.conformance.sequence_clients import (
    DELAY_US,
    IDS,
    START_MISSING,
    Walker,
    crowd,
    flags_of,
    statistics,
    stream_steps,
    write_python_sequences,
    write_sequence_models,
)
from tests.sequence_models import LISTS

pytestmark = pytest.mark.conformance
STRATEGIES = ("seq", "seq_oldest")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_sequence_models(path)
    write_python_sequences(path)
    return path


@pytest.fixture(scope="module")
def held_server(repository, tmp_path_factory):
    """Every scheduler waits, once, until three requests have come."""
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITONSERVER_DELAY_SCHEDULER", "3")
        loads = [f"--load-model=seq_delay_{u}" for u in (0.0, 0.5, 1.0)]
        with runtime(repository, log, *loads) as running:
            yield running


@pytest.fixture
def ids():
    """Ids that no other test uses."""
    return iter(range(time.monotonic_ns(), 2**62))


@pytest.fixture
def walker(client):
    return Walker(client)


@pytest.fixture
def people(server):
    with crowd(server) as people:
        yield people


def refused(text, call, *args, **more):
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **more)
    assert text in caught.value.message()
    return caught.value


# 137


@pytest.mark.parametrize("model", [*STRATEGIES, "seq_ordered", "seq_single", "seq_bare"])
def test_check_137_a_sequence_accumulates(walker, ids, model):
    assert walker.walk(model, next(ids), [1, 2, 3]) == [1, 3, 6]
    assert walker.walk(model, next(ids), [5]) == [5]


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_137_over_a_stream(server, ids, model):
    id_ = next(ids)
    values = [1, 2, 3, 4, 5]
    with server.grpc_client() as client, open_stream(client) as stream:
        steps = [(id_, value, flags_of(n, 5)) for n, value in enumerate(values)]
        stream_steps(client, model, steps)
        results = stream.results(5)
    assert [int(result.as_numpy("OUTPUT0")[0, 0]) for result in results] == [1, 3, 6, 10, 15]
    assert [result.get_response().id for result in results] == list("01234")


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_137_a_lone_sequence_of_nine(server, ids, model):
    before = statistics(server, model)
    walker = Walker(Client(server, "grpc"))
    assert walker.walk(model, next(ids), range(1, 10))[-1] == 45
    walker.client.close()
    after = statistics(server, model)
    for key in ("success", "inferences", "executions"):
        assert after[key] - before[key] == 9


def test_check_137_a_python_model_gets_controls_flags_and_id(walker, ids):
    assert walker.walk("accumulate", next(ids), [1, 2, 3]) == [1, 3, 6]


def test_check_137_flags_and_id_reach_the_steps_of_an_ensemble(walker, ids):
    """Sums of sums: each of the two models has its own state for the sequence."""
    id_ = next(ids)
    assert walker.walk("seq_ensemble", id_, [1, 2, 3]) == [1, 4, 10]
    text = f"in ensemble 'seq_ensemble', inference request for sequence {id_} to model 'seq'"
    refused(f"{text} {START_MISSING}", walker.step, "seq_ensemble", id_, 1)


@pytest.mark.parametrize("datatype", LISTS)
def test_check_137_controls_of_each_datatype(walker, ids, datatype):
    id_ = next(ids)
    flags = [
        int(walker.step(f"seq_flags_{datatype}", id_, 1, mark).as_numpy("FLAGS")[0, 0])
        for mark in ("s", "", "e")
    ]
    assert flags == [3, 2, 6]


# 138, 139, 140


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_138_no_id(walker, model):
    error = refused("must specify a non-zero or non-empty correlation ID", walker.step, model, 0, 1)
    assert error.status() in ("400", "StatusCode.INVALID_ARGUMENT")


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_139_the_start_flag(walker, ids, model):
    id_ = next(ids)
    text = f"inference request for sequence {id_} to model '{model}' {START_MISSING}"
    refused(text, walker.step, model, id_, 1)
    walker.walk(model, id_, [1, 2])
    refused(text, walker.step, model, id_, 3)


def test_check_140_one_row_at_a_time(walker, ids):
    pair = {"INPUT0": np.ones((2, 1), np.int32)}
    refused(
        "must specify batch-size 1 due to requirements of sequence batcher",
        walker.client.ask, "seq", pair, sequence_id=next(ids), sequence_start=True,
    )  # fmt: skip
    nine = {"INPUT0": np.ones((9, 1), np.int32)}
    refused(
        "inference request batch-size must be <= 4",
        walker.client.ask, "seq", nine, sequence_id=next(ids), sequence_start=True,
    )  # fmt: skip


def test_check_140_controls_and_states_are_no_inputs_of_clients(walker, ids):
    inputs = {"INPUT0": np.ones((1, 1), np.int32), "START": np.ones((1, 1), np.int32)}
    with pytest.raises(InferenceServerException) as caught:
        walker.client.ask("seq", inputs, sequence_id=next(ids), sequence_start=True)
    assert "expected 1 inputs but got 2 inputs for model 'seq'" in caught.value.message()
    only = {"SUM_IN": np.ones((1, 1), np.int32)}
    refused(
        "unexpected inference input 'SUM_IN' for model 'seq'",
        walker.client.ask, "seq", only, sequence_id=next(ids), sequence_start=True,
    )  # fmt: skip
    metadata = walker.client.names(walker.client.get_model_metadata("seq_bare"))
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["INPUT0"]
    assert {tensor["name"] for tensor in metadata["outputs"]} == {"OUTPUT0", "FLAGS", "ID"}


# 141


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_141_start_on_an_active_id(walker, server, ids, model):
    id_ = next(ids)
    assert walker.sum(model, id_, 1, "s") == 1
    assert walker.sum(model, id_, 2) == 3
    assert walker.walk(model, id_, [10, 20]) == [10, 30]
    refused(START_MISSING, walker.step, model, id_, 1)
    assert f"sequence {id_} of model '{model}' has a new START" in server.log


# 142, 143


def hold_slots(people, ids, model, count=4):
    """Sequences that have begun, so that no slot is free."""
    held = [next(ids) for _ in range(count)]
    for number, id_ in enumerate(held):
        assert people.sum(model, id_, number, "s").result(20) == number
    return held


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_142_a_fifth_sequence_waits_until_one_ends(people, ids, model):
    held = hold_slots(people, ids, model)
    fifth = next(ids)
    steps = [people.sum(model, fifth, 50, "s")]
    people.wait_pending(model, 1)
    assert not steps[0].done()
    assert people.sum(model, held[2], 5, "e").result(20) == 7
    assert steps[0].result(20) == 50
    assert people.sum(model, fifth, 5, "e").result(20) == 55
    for number in (0, 1, 3):
        assert people.sum(model, held[number], 1, "e").result(20) == number + 1


def test_check_142_four_sequences_fill_a_batch(server, people, ids):
    model = "seq_delay_1.0"
    before = statistics(server, model)
    four = [people.sum(model, next(ids), n, "se") for n in range(4)]
    assert [step.result(20) for step in four] == [0, 1, 2, 3]
    after = statistics(server, model)
    assert after["executions"] - before["executions"] == 1
    assert after["batches"][4] - before["batches"].get(4, 0) == 1


def test_check_142_an_id_used_again_waits_for_the_end_of_the_first(server, people, ids):
    """The new one arrives, on a stream, right behind the END of the old."""
    id_ = next(ids)
    steps = [(id_, value, flags_of(n % 3, 3)) for n, value in enumerate((1, 2, 3, 10, 20, 30))]
    with server.grpc_client() as client, open_stream(client) as stream:
        stream_steps(client, "seq_slow", steps)
        sums = [int(r.as_numpy("OUTPUT0")[0, 0]) for r in stream.results(6)]
    assert sums == [1, 3, 6, 10, 30, 60]


@pytest.mark.parametrize("model", ["seq_slow", "accumulate"])
def test_check_143_shorter_sequences_leave_fillers_and_right_results(people, ids, model):
    lengths = (1, 5, 2, 7)

    def walk(length):
        id_ = next(ids)
        flags = [flags_of(n, length) for n in range(length)]
        marks = ["s" * f["sequence_start"] + "e" * f["sequence_end"] for f in flags]
        return [people.sum(model, id_, 1, mark).result(30) for mark in marks]

    with ThreadPoolExecutor(4) as pool:
        sums = list(pool.map(walk, lengths))
    assert sums == [list(range(1, length + 1)) for length in lengths]


# 144, 145


@pytest.mark.parametrize("strategy", ["direct", "oldest"])
def test_check_144_an_idle_sequence_loses_its_slot(people, ids, strategy):
    model = f"seq_idle_{strategy}"
    held = hold_slots(people, ids, model)
    waiting = people.sum(model, next(ids), 9, "s")
    assert waiting.result(20) == 9
    refused(START_MISSING, people.sum(model, held[0], 1).result, 20)


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_145_a_backlogged_sequence_times_out_as_a_whole(people, ids, model):
    held = hold_slots(people, ids, model)
    late = next(ids)
    steps = [people.sum(model, late, 1, "s", timeout=600_000)]
    people.wait_pending(model, 1)
    steps += [people.sum(model, late, n) for n in (2, 3)]
    for step in steps:
        error = refused("timeout of the corresponding sequence has been expired", step.result, 20)
        assert error.status() == "StatusCode.UNAVAILABLE"
    refused(START_MISSING, people.sum(model, late, 4).result, 20)
    for number, id_ in enumerate(held):
        assert people.sum(model, id_, 1, "e").result(20) == number + 1


# 146


@pytest.mark.parametrize("datatype", IDS)
def test_check_146_the_control_delivers_the_id(walker, datatype):
    model = f"seq_id_{datatype}"
    id_ = "a sequence" if datatype == "BYTES" else 2**31 - 7
    expected = b"a sequence" if datatype == "BYTES" else id_
    for mark in ("s", "", "e"):
        assert walker.step(model, id_, 1, mark).as_numpy("ID")[0, 0] == expected


def test_check_146_narrow_controls_truncate(walker):
    wide = 5 * 2**32 + 11
    assert walker.step("seq_id_UINT32", wide, 1, "se").as_numpy("ID")[0, 0] == 11
    assert walker.step("seq_id_INT32", wide, 1, "se").as_numpy("ID")[0, 0] == 11
    assert walker.step("seq_id_UINT64", 2**63 - 5, 1, "se").as_numpy("ID")[0, 0] == 2**63 - 5


def test_check_146_ids_of_the_wrong_kind(walker):
    refused(
        "sequence batching control 'CORRID' data-type is 'BYTES', but model 'seq' expects 'UINT64'",
        walker.step, "seq", "text", 1, "s",
    )  # fmt: skip
    refused(
        "data-type is 'UINT64', but model 'seq_id_BYTES' expects 'BYTES'",
        walker.step, "seq_id_BYTES", 7, 1, "s",
    )  # fmt: skip


def test_check_146_text_ids_side_by_side(people):
    names = ["one", "two", "three"]
    for n, mark in enumerate(("s", "", "e")):
        steps = [people.sum("seq_id_BYTES", name, len(name), mark) for name in names]
        assert [s.result(20) for s in steps] == [len(name) * (n + 1) for name in names]


# 147, 148


@pytest.mark.parametrize(("utilization", "waits"), [(0.0, 0), (0.5, 1), (1.0, 1)])
def test_check_147_the_delay_of_the_direct_strategy(held_server, ids, utilization, waits):
    model = f"seq_delay_{utilization}"
    one, two = next(ids), next(ids)
    began = time.monotonic()
    with crowd(held_server) as people:
        steps = [people.sum(model, one, 1, "se")]
        people.wait_pending(model, 1)
        steps.append(people.sum(model, two, 1, "s"))
        people.wait_pending(model, 2)
        steps.append(people.sum(model, two, 2, "e"))
        assert [step.result(20) for step in steps] == [1, 1, 3]
    took = time.monotonic() - began
    assert took >= waits * DELAY_US / 1e6
    counts = statistics(held_server, model)
    # Slot 1 holds the longer sequence: its second step has a filler below.
    assert counts == {"success": 3, "inferences": 3, "executions": 2, "batches": {2: 2}}


@pytest.mark.parametrize("model", ["seq_oldest", "seq_ordered"])
def test_check_148_the_order_of_a_sequence_is_kept_on_a_stream(server, ids, model):
    first, second = next(ids), next(ids)
    steps = [(id_, n, flags_of(n, 20)) for n in range(20) for id_ in (first, second)]
    with server.grpc_client() as client, open_stream(client) as stream:
        stream_steps(client, model, steps)
        results = stream.results(40)
    for offset in (0, 1):
        mine = [r for r in results if int(r.get_response().id) % 2 == offset]
        sums = [int(r.as_numpy("OUTPUT0")[0, 0]) for r in mine]
        assert sums == [n * (n + 1) // 2 for n in range(20)]
        numbers = [int(r.get_response().id) for r in mine]
        assert numbers == sorted(numbers)
    counts = statistics(server, model)
    assert max(counts["batches"]) <= 4


def test_check_148_preserved_order_is_that_of_all_requests(server, ids):
    """Runs of steps of one sequence: without it, the others would overtake them."""
    first, second, third = (next(ids) for _ in range(3))
    order = [first] * 4 + [second] * 2 + [first] * 3 + [third] * 6 + [second] * 5
    steps = [
        (
            id_,
            1,
            {"sequence_start": id_ not in order[:n], "sequence_end": id_ not in order[n + 1 :]},
        )
        for n, id_ in enumerate(order)
    ]
    with server.grpc_client() as client, open_stream(client) as stream:
        stream_steps(client, "seq_ordered", steps)
        results = stream.results(len(steps))
    assert [int(result.get_response().id) for result in results] == list(range(len(steps)))
    sums = [int(result.as_numpy("OUTPUT0")[0, 0]) for result in results]
    assert sums == [order[: n + 1].count(id_) for n, id_ in enumerate(order)]


# 149


def test_check_149_cancelling_one_waiting_request_cancels_them_all(server, people, ids):
    model = "seq"
    held = hold_slots(people, ids, model)
    before = failures(server, model)
    waiting = next(ids)
    first = people.sum(model, waiting, 1, "s")
    people.wait_pending(model, 1)
    with server.grpc_client() as client:
        told = threading.Event()
        tensor = people._walker.client.tensor("INPUT0", np.ones((1, 1), np.int32))
        call = client.async_infer(
            model, [tensor], lambda result, error: told.set(), sequence_id=waiting
        )
        people.wait_pending(model, 2)
        last = people.sum(model, waiting, 3, "e")
        people.wait_pending(model, 3)
        call.cancel()
        assert told.wait(20)
    for step in (first, last):
        with pytest.raises(InferenceServerException) as caught:
            step.result(20)
        assert caught.value.status() == "StatusCode.CANCELLED"
    people.wait_pending(model, 0)
    assert failures(server, model) - before == 3
    refused(START_MISSING, people.sum(model, waiting, 4).result, 20)
    for number, id_ in enumerate(held):
        assert people.sum(model, id_, 1, "e").result(20) == number + 1


def failures(server, model):
    start = f'nv_inference_request_failure{{model="{model}",reason="CANCELED",version="1"}} '
    connection = http.client.HTTPConnection(server.metrics, timeout=20)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    return next(int(float(line[len(start) :])) for line in lines if line.startswith(start))


# 150


def test_check_150_a_state_is_the_servers_unless_it_is_an_output_too(walker, ids):
    refused(
        "unexpected inference output 'SUM_OUT' for model 'seq'",
        walker.step, "seq", next(ids), 1, "s", outputs=["SUM_OUT"],
    )  # fmt: skip
    id_ = next(ids)
    result = walker.step("seq_shown", id_, 3, "s", outputs=["SUM_OUT"])
    assert result.as_numpy("SUM_OUT")[0, 0] == 3
    assert result.as_numpy("OUTPUT0") is None
    everything = walker.step("seq_shown", id_, 4, "e")
    assert everything.as_numpy("SUM_OUT")[0, 0] == 7
    assert walker.step("seq", next(ids), 1, "se").as_numpy("SUM_OUT") is None


# 151


def generate_stream(server, model, body):
    connection = http.client.HTTPConnection(server.http, timeout=30)
    try:
        connection.request("POST", f"/v2/models/{model}/generate_stream", json.dumps(body))
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_check_151_an_iterative_model_comes_back_to_its_request(server):
    text = generate_stream(server, "countdown", {"INPUT": 2})
    events = [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n") if part]
    assert [event["OUTPUT"] for event in events] == [1, 0]


def test_check_151_others_must_not(server):
    text = generate_stream(server, "no_countdown", {"INPUT": 2})
    assert "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE" in text


# 191


@pytest.mark.parametrize("model", STRATEGIES)
def test_check_191_the_pending_gauge_counts_what_waits_for_a_slot(people, ids, model):
    held = hold_slots(people, ids, model)
    assert people.pending(model) == 0
    waiting = [people.sum(model, next(ids), n, "se") for n in range(3)]
    people.wait_pending(model, 3)
    for number, id_ in enumerate(held):
        assert people.sum(model, id_, 1, "e").result(20) == number + 1
    assert [step.result(20) for step in waiting] == [0, 1, 2]
    assert people.pending(model) == 0
