"""Section 9.6 of the compliance checklist: tensors in shared memory."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tests.conformance.client_regions import (
    FIRST,
    PAGE,
    SECOND,
    SHAPE,
    SIZE,
    inflight,
    registered,
    shared,
    shared_input,
    shared_output,
    status,
    write_region_models,
)
from tests.conformance.clients import KINDS, Client
from tests.conformance.runtime_process import runtime

pytestmark = pytest.mark.conformance
DISABLED = (
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return write_region_models(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def options():
    return ("--load-model=*", "--allow-client-shm=true")


@pytest.fixture(scope="module")
def closed_server(repository, tmp_path_factory):
    """As it comes: without the option."""
    log = tmp_path_factory.mktemp("log") / "runtime.log"
    with runtime(repository, log, "--load-model=simple") as running:
        yield running


def refusal(call, *arguments, **more) -> InferenceServerException:
    with pytest.raises(InferenceServerException) as caught:
        call(*arguments, **more)
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
def test_check_101_without_the_option_nothing_is_registered(closed_server, kind):
    client = Client(closed_server, kind)
    assert status(client) == {}
    for call in (
        lambda: client.register_system_shared_memory("r", "/k", 8),
        lambda: client.register_cuda_shared_memory("r", b"A" * 88, 0, 8),
        client.unregister_system_shared_memory,
        client.unregister_cuda_shared_memory,
    ):
        refused = refusal(call)
        assert refused.message() == DISABLED
        assert refused.status() in ("501", "StatusCode.UNIMPLEMENTED")
    assert status(client) == {}
    inputs = [shared_input(client, name, "r") for name in ("INPUT0", "INPUT1")]
    assert refusal(client.infer, "simple", inputs).message() == (
        "Unable to find shared memory region: 'r'"
    )
    client.close()


def test_check_102_register_status_unregister(client):
    with shared(2 * PAGE, "dummy_data") as region:
        client.register_system_shared_memory("dummy_data", region.key, PAGE, offset=PAGE)
        row = {"key": region.key, "offset": PAGE, "byte_size": PAGE}
        assert status(client) == {"dummy_data": row}
        assert client.get_system_shared_memory_status("dummy_data")
        client.unregister_system_shared_memory("dummy_data")
        assert status(client) == {}
        client.unregister_system_shared_memory("dummy_data")
    assert refusal(client.get_system_shared_memory_status, "dummy_data").message() == (
        "Unable to find system shared memory region: 'dummy_data'"
    )


def test_check_102_unregister_without_a_name_is_for_all(client):
    with ExitStack() as stack:
        regions = [stack.enter_context(registered(client)) for _ in range(3)]
        assert set(status(client)) == {region.name for region in regions}
        client.unregister_system_shared_memory()
        assert status(client) == {}


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_check_102_a_region_needs_a_name(server, kind):
    status_, body = server.call("POST", f"/v2/{kind}sharedmemory/register", {"byte_size": 8})
    assert status_ == 400
    assert body["error"] == f"'region name' is necessary to register {kind} shared memory region"


@pytest.mark.parametrize(
    ("kind", "body", "missing"),
    [
        ("system", {"byte_size": 8}, "key"),
        ("system", {"key": "/k"}, "byte_size"),
        ("cuda", {"device_id": 0, "byte_size": 8}, "raw_handle"),
        ("cuda", {"raw_handle": {"b64": "QUFB" * 21 + "QQ=="}, "byte_size": 8}, "device_id"),
    ],
)
def test_check_102_a_registration_needs_its_fields(server, kind, body, missing):
    path = f"/v2/{kind}sharedmemory/region/r/register"
    assert server.call("POST", path, body) == (
        400,
        {"error": f"Shared memory register request has no '{missing}' field"},
    )


def test_check_103_a_name_is_registered_once(client):
    with registered(client, name="dummy_data") as region:
        refused = refusal(client.register_system_shared_memory, "dummy_data", region.key, SIZE)
        assert refused.message() == "shared memory region 'dummy_data' already in manager"
        assert refused.status() in ("400", "StatusCode.ALREADY_EXISTS")
        assert len(status(client)) == 1


@pytest.mark.parametrize("mixed", [False, True])
def test_check_104_inputs_and_outputs_in_shared_memory(client, mixed):
    with (
        registered(client, 2 * SIZE, FIRST, SECOND) as inputs,
        registered(client, 2 * SIZE) as outputs,
    ):
        tensors = [
            shared_input(client, "INPUT0", inputs.name),
            client.tensor("INPUT1", SECOND)
            if mixed
            else shared_input(client, "INPUT1", inputs.name, offset=SIZE),
        ]
        asked = [
            shared_output(client, "OUTPUT0", outputs.name),
            client.requested("OUTPUT1")
            if mixed
            else shared_output(client, "OUTPUT1", outputs.name, offset=SIZE),
        ]
        # The first time request and answer are read and written, later they are remembered.
        for step, id_ in enumerate(("", "", "", "42", "")):
            inputs.put(FIRST * step)
            result = client.infer("simple", tensors, outputs=asked, request_id=id_)
            np.testing.assert_array_equal(outputs.array(), FIRST * step + SECOND)
            difference = result.as_numpy("OUTPUT1") if mixed else outputs.array(offset=SIZE)
            np.testing.assert_array_equal(difference, FIRST * step - SECOND)
            assert_without_data(client, result, "OUTPUT0")


def assert_without_data(client, result, name):
    entry = result.get_output(name)
    if client.over_http:
        assert entry == {"name": name, "datatype": "INT32", "shape": SHAPE}
        return
    assert (entry.name, entry.datatype, list(entry.shape)) == (name, "INT32", SHAPE)
    response = result.get_response()
    raw = dict(zip((o.name for o in response.outputs), response.raw_output_contents, strict=True))
    assert raw[name] == b""


@pytest.mark.parametrize("binary", [False, True])
def test_check_104_ordinary_inputs_may_be_json_or_binary(server, binary):
    client = Client(server, "http")
    with registered(client, SIZE, FIRST) as region:
        plain = client.input("INPUT1", SHAPE, "INT32")
        plain.set_data_from_numpy(SECOND, binary_data=binary)
        result = client.infer("simple", [shared_input(client, "INPUT0", region.name), plain])
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), FIRST + SECOND)
    client.close()


def test_check_104_strings_in_shared_memory(client):
    words = np.array([["a", "", "ünï"]], dtype=np.object_)
    packed = serialize_byte_tensor(words)
    size = len(packed.item())
    with registered(client, size, packed) as region, registered(client, 100) as answer:
        tensor = shared_input(client, "INPUT0", region.name, size, shape=[1, 3], datatype="BYTES")
        output = shared_output(client, "OUTPUT0", answer.name, 100)
        client.infer("text", [tensor], outputs=[output])
        found = answer.array(np.object_, (1, 3))
        assert [text.decode() for text in found[0]] == ["a", "", "ünï"]


def test_check_104_streams_keep_their_order(server):
    client = Client(server, "grpc")
    answers: list[tuple[Any, Exception | None]] = []
    complete = threading.Event()

    def taken(result, error):
        answers.append((result, error))
        if len(answers) == 20:
            complete.set()

    size = 300_000 * 4  # more than is copied between two turns of the event loop
    big = np.arange(300_000, dtype=np.int32).reshape(1, -1)
    with registered(client, size, big) as region, registered(client, 20 * SIZE) as outputs:
        tensor = shared_input(client, "INPUT0", region.name, size, shape=big.shape)
        client.start_stream(taken)
        for number in range(20):
            if number % 2:
                client.async_stream_infer("free", [tensor], request_id=str(number))
                continue
            inputs = [client.tensor("INPUT0", FIRST + number), client.tensor("INPUT1", SECOND)]
            output = shared_output(client, "OUTPUT0", outputs.name, offset=number * SIZE)
            client.async_stream_infer("simple", inputs, outputs=[output], request_id=str(number))
        assert complete.wait(30)
        client.stop_stream()
        for number in range(0, 20, 2):
            found = outputs.array(offset=number * SIZE)
            np.testing.assert_array_equal(found, FIRST + number + SECOND)
    assert [error for _, error in answers if error is not None] == []
    assert [result.get_response().id for result, _ in answers] == [str(n) for n in range(20)]
    np.testing.assert_array_equal(answers[1][0].as_numpy("OUTPUT0"), big)
    client.close()


def test_check_104_an_unknown_region_is_an_error_inside_the_stream(server):
    client = Client(server, "grpc")
    answers: list[tuple[Any, Exception | None]] = []
    complete = threading.Event()

    def taken(result, error):
        answers.append((result, error))
        if len(answers) == 2:
            complete.set()

    client.start_stream(taken)
    bad = [shared_input(client, name, "nowhere") for name in ("INPUT0", "INPUT1")]
    good = [client.tensor("INPUT0", FIRST), client.tensor("INPUT1", SECOND)]
    client.async_stream_infer("simple", bad)
    client.async_stream_infer("simple", good)
    assert complete.wait(30)
    client.stop_stream()
    assert str(answers[0][1]) == "Unable to find shared memory region: 'nowhere'"
    np.testing.assert_array_equal(answers[1][0].as_numpy("OUTPUT0"), FIRST + SECOND)
    client.close()


def test_check_104_each_response_of_a_decoupled_model_goes_to_the_region(server):
    client = Client(server, "grpc")
    answers: list[tuple[Any, Exception | None]] = []
    complete = threading.Event()

    def taken(result, error):
        answers.append((result, error))
        if len(answers) == 3:
            complete.set()

    values = np.array([5, 6, 7], np.int32)
    with registered(client, 12, values) as region, registered(client, 4) as answer:
        tensors = [
            shared_input(client, "IN", region.name, 12, shape=[3]),
            client.tensor("DELAY", np.zeros(3, np.uint32)),
            client.tensor("WAIT", np.zeros(1, np.uint32)),
        ]
        output = shared_output(client, "OUT", answer.name, 4)
        client.start_stream(taken)
        client.async_stream_infer("repeat", tensors, outputs=[output, client.requested("IDX")])
        assert complete.wait(30)
        client.stop_stream()
        assert [int(result.as_numpy("IDX")[0]) for result, _ in answers] == [0, 1, 2]
        assert all(result.get_response().raw_output_contents[0] == b"" for result, _ in answers)
        assert answer.array(shape=(1,)) == [7]
        client.unregister_system_shared_memory(region.name)
        assert set(status(client)) == {answer.name}
    client.close()


def test_check_104_large_tensors_both_ways(client):
    big = np.arange(1_000_000, dtype=np.int32).reshape(1, -1)
    with (
        registered(client, big.nbytes, big) as region,
        registered(client, big.nbytes) as answer,
    ):
        tensor = shared_input(client, "INPUT0", region.name, big.nbytes, shape=big.shape)
        output = shared_output(client, "OUTPUT0", answer.name, big.nbytes)
        client.infer("free", [tensor], outputs=[output])
        np.testing.assert_array_equal(answer.array(shape=big.shape), big)


def test_check_105_the_registered_offset_is_honoured(client):
    with (
        registered(client, 2 * SIZE, FIRST, SECOND, offset=PAGE) as inputs,
        registered(client, 2 * SIZE, offset=2 * PAGE) as outputs,
    ):
        tensors = [
            shared_input(client, "INPUT0", inputs.name),
            shared_input(client, "INPUT1", inputs.name, offset=SIZE),
        ]
        client.infer("simple", tensors, outputs=[shared_output(client, "OUTPUT0", outputs.name)])
        np.testing.assert_array_equal(outputs.array(offset=2 * PAGE), FIRST + SECOND)
        assert not outputs.array(shape=(2 * PAGE // 4,)).any()


@pytest.mark.parametrize(
    ("byte_size", "offset"),
    [(PAGE + 1, 0), (PAGE, PAGE), (1, PAGE), (0, 2 * PAGE), (2**64 - 1, PAGE)],
    ids=["a byte more", "an offset more", "offset is size", "empty behind the end", "overflow"],
)
def test_check_106_what_is_beyond_the_object_is_refused(client, byte_size, offset):
    with shared(PAGE) as region:
        refused = refusal(
            client.register_system_shared_memory, region.name, region.key, byte_size, offset=offset
        )
        assert refused.message() == (
            f"failed to register shared memory region '{region.name}': invalid args"
        )
        assert refused.status() in ("400", "StatusCode.INVALID_ARGUMENT")
        assert status(client) == {}


@pytest.mark.parametrize(("byte_size", "offset"), [(8, 8), (0, 0), (8, PAGE - 1)])
def test_check_106_what_can_not_be_mapped_is_refused(client, byte_size, offset):
    with shared(2 * PAGE) as region:
        refused = refusal(
            client.register_system_shared_memory, region.name, region.key, byte_size, offset=offset
        )
        assert f"failed to register shared memory region '{region.name}'" in refused.message()
        assert status(client) == {}


def test_check_107_spans_beyond_the_region_are_refused(client):
    plain = [client.tensor("INPUT0", FIRST), client.tensor("INPUT1", SECOND)]
    with registered(client) as region:
        for size, offset, text in (
            (SIZE, SIZE, "Invalid offset for shared memory region: '{}'"),
            (SIZE, 1 << 20, "Invalid offset for shared memory region: '{}'"),
            (SIZE, 1, "Invalid offset + byte size for shared memory region: '{}'"),
        ):
            output = shared_output(client, "OUTPUT0", region.name, size, offset)
            refused = refusal(client.infer, "simple", plain, outputs=[output])
            assert refused.message() == text.format(region.name)
            tensor = shared_input(client, "INPUT0", region.name, size, offset)
            refused = refusal(client.infer, "simple", [tensor, plain[1]])
            assert refused.message() == text.format(region.name)


def test_check_107_a_size_that_overflows_is_refused(server):
    client = Client(server, "http")
    with registered(client) as region:
        tensors = [
            shared_input(client, "INPUT0", region.name, 2**64 - 32, 32),
            client.tensor("INPUT1", SECOND),
        ]
        refused = refusal(client.infer, "simple", tensors)
        assert "Integer overflow detected: byte_size " in refused.message()
        assert refused.status() == "400"
    client.close()


def test_check_107_an_output_that_does_not_fit_is_refused(client):
    plain = [client.tensor("INPUT0", FIRST), client.tensor("INPUT1", SECOND)]
    with registered(client) as region:
        output = shared_output(client, "OUTPUT0", region.name, SIZE - 1)
        refused = refusal(client.infer, "simple", plain, outputs=[output])
        assert refused.message() == (
            "shared memory size specified with the request for output 'OUTPUT0' (63 bytes) should be "
            "at least 64 bytes to hold the results"
        )
        # Triton says INTERNAL; the client chose the size.
        assert refused.status() in ("400", "StatusCode.INVALID_ARGUMENT")
        assert not region.array().any()


def test_check_108_an_input_of_another_size_is_refused(client):
    with registered(client, 2 * SIZE, FIRST, SECOND) as region:
        tensors = [
            client.tensor("INPUT0", FIRST),
            shared_input(client, "INPUT1", region.name, 2 * SIZE),
        ]
        refused = refusal(client.infer, "simple", tensors)
        assert refused.message().endswith(
            "input byte size mismatch for input 'INPUT1' for model 'simple'. Expected 64, got 128"
        )


@pytest.mark.parametrize("slashes", ["", "/", "///"])
def test_check_109_reserved_keys_are_refused(client, slashes):
    key = slashes + "triton_python_backend_shm_region_17"
    refused = refusal(client.register_system_shared_memory, "r", key, 8)
    assert refused.message() == (
        f"cannot register shared memory region 'r' with key '{key}' as the key contains the reserved "
        "prefix 'triton_python_backend_shm_region_'"
    )
    assert refused.status() in ("400", "StatusCode.INVALID_ARGUMENT")


@pytest.mark.parametrize("key", ["/", "///"])
def test_check_109_keys_of_slashes_are_refused(client, key):
    refused = refusal(client.register_system_shared_memory, "r", key, 8)
    assert refused.message() == (
        f"cannot register shared memory region 'r' - invalid shm key '{key}'"
    )


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_check_109_leading_slashes_make_no_difference(client, slashes):
    with shared() as region:
        key = slashes + region.key.lstrip("/")
        client.register_system_shared_memory(region.name, key, SIZE)
        assert status(client)[region.name]["key"] == key
        client.unregister_system_shared_memory(region.name)


def test_check_109_an_object_that_is_not_there_is_refused(client):
    refused = refusal(client.register_system_shared_memory, "r", "/switchyard_nobody_made_it", 8)
    assert refused.message() == "Unable to open shared memory region: '/switchyard_nobody_made_it'"
    # Triton says INTERNAL; the client chose the key.
    assert refused.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_check_110_a_region_in_use_goes_with_its_last_user(server, client):
    with ExitStack() as stack:
        regions = [stack.enter_context(registered(client, SIZE, FIRST)) for _ in range(2)]
        names = {region.name for region in regions}

        def ask(kind):
            mine = Client(server, kind)
            try:
                tensor = shared_input(mine, "INPUT0", regions[0].name)
                output = shared_output(mine, "OUTPUT0", regions[1].name)
                mine.infer("slow", [tensor], outputs=[output])
            finally:
                mine.close()

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(ask, "http")
            server.wait_for(lambda: inflight(server, "slow") == 1, "the first request")
            client.unregister_system_shared_memory()
            assert set(status(client)) == names
            second = pool.submit(ask, "grpc")
            server.wait_for(lambda: inflight(server, "slow") == 2, "the second request")
            first.result(30)
            assert set(status(client)) == names
            second.result(30)
        assert status(client) == {}
        np.testing.assert_array_equal(regions[1].array(), FIRST)


@pytest.mark.parametrize("kind", KINDS)
def test_check_110_cuda_memory_where_no_driver_is(server, kind):
    client = Client(server, kind)
    answer = client.names(client.get_cuda_shared_memory_status())
    assert not (answer.get("regions") if isinstance(answer, dict) else answer)
    handle = b"QUFB" * 21 + b"QQ=="  # 64 bytes
    refused = refusal(client.register_cuda_shared_memory, "r", handle, 0, 8)
    assert refused.message() == (
        "failed to register CUDA shared memory region: 'r', GPUs not supported"
    )
    assert refused.status() in ("501", "StatusCode.UNIMPLEMENTED")
    refused = refusal(client.register_cuda_shared_memory, "r", b"QUFB", 0, 8)
    assert refused.message() == ("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")
    assert refusal(client.get_cuda_shared_memory_status, "r").message() == (
        "Unable to find cuda shared memory region: 'r'"
    )
    client.unregister_cuda_shared_memory("r")
    client.unregister_cuda_shared_memory()
    client.close()


def test_what_grpc_clients_get_wrong_about_spans(server):
    client = Client(server, "grpc")
    tensor = grpcclient.InferInput("INPUT0", SHAPE, "INT32")
    tensor._get_tensor().parameters["shared_memory_region"].string_param = "r"
    refused = refusal(client.infer, "simple", [tensor, client.tensor("INPUT1", SECOND)])
    assert "'shared_memory_byte_size' must be specified along with" in refused.message()
    client.close()
