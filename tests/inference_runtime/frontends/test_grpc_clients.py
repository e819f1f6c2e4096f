"""The stock gRPC clients against our front end."""

import queue
import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as sync_client
import tritonclient.grpc.aio as aio_client
from tritonclient.utils import InferenceServerException

from inference_runtime import pb
from inference_runtime.errors import DeadlineExceeded
from inference_runtime.frontends.grpc_server import GrpcOptions
from inference_runtime.protocol import byte_strings, compression, grpc_answer
from inference_runtime.spec.messages import InferResponse, ResponseHead, TensorHead
from tests.hostile.wire.raw_h2 import STREAM, RawH2, grpc_frame
from tests.inference_runtime.frontends.fake_core import Config, Version
from tests.inference_runtime.frontends.serving import serving, unary

A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.full((1, 16), 3, np.int32)


@pytest.fixture
def client(served):
    client = sync_client.InferenceServerClient(served.grpc_address)
    yield client
    client.close()


def inputs(module=sync_client, **arrays):
    kinds = {"int32": "INT32", "float32": "FP32", "object": "BYTES"}
    made = []
    for name, array in (arrays or {"INPUT0": A, "INPUT1": B}).items():
        made.append(module.InferInput(name, list(array.shape), kinds[array.dtype.name]))
        made[-1].set_data_from_numpy(array)
    return made


@pytest.mark.parametrize("request_id", ["", "42"])
def test_infers(client, request_id):
    for _ in range(3):  # the first time is read, the others are remembered
        answer = client.infer("simple", inputs(), request_id=request_id)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), A + B)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), A - B)
        assert answer.get_response().id == request_id
        assert answer.get_response().model_version == "1"


def test_gives_only_the_outputs_asked_for(client):
    asked = [sync_client.InferRequestedOutput("OUTPUT1")]
    for _ in range(2):
        answer = client.infer("simple", inputs(), outputs=asked)
        assert answer.as_numpy("OUTPUT0") is None
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), A - B)


def test_classes_come_back_as_strings(client):
    asked = [sync_client.InferRequestedOutput("OUTPUT0", class_count=2)]
    answer = client.infer("simple", inputs(), outputs=asked)
    assert answer.as_numpy("OUTPUT0").tolist() == [[b"18:15", b"17:14"]]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [16, 100_000])
def test_reads_compressed_requests(client, algorithm, size):
    array = np.random.default_rng(0).random((1, size), np.float32)
    for _ in range(2):
        answer = client.infer("ident", inputs(INPUT0=array), compression_algorithm=algorithm)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)


@pytest.mark.parametrize("value", ["grüß", "", "\x00x"])
def test_strings_go_through(client, value):
    array = np.array([[value.encode()]], dtype=object)
    for _ in range(2):
        answer = client.infer("ident_str", inputs(INPUT0=array))
        assert answer.as_numpy("OUTPUT0").tolist() == [[value.encode()]]


def test_tensors_without_elements_go_through(client):
    for _ in range(2):
        answer = client.infer("ident", inputs(INPUT0=np.zeros((1, 0), np.float32)))
        assert answer.as_numpy("OUTPUT0").shape == (1, 0)


@pytest.mark.parametrize("mebibytes", [1, 5, 64])
def test_large_tensors_go_through(client, mebibytes):
    array = np.random.default_rng(0).random((1, mebibytes << 18), np.float32)
    for _ in range(2):
        answer = client.infer("ident", inputs(INPUT0=array))
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)


def test_parameters_reach_the_core(client, served):
    client.infer(
        "simple",
        inputs(),
        priority=2,
        timeout=500,
        sequence_id="s",
        sequence_end=True,
        parameters={"text": "x", "number": 1.5, "flag": True, "whole": 3},
    )
    head = served.core.seen[-1].head
    assert (head.priority, head.timeout_us, head.sequence_id, head.sequence_end) == (
        2,
        500,
        "s",
        True,
    )
    assert head.parameters == {"text": "x", "number": 1.5, "flag": True, "whole": 3}


def test_errors_carry_status_and_text(client):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("nope ü%", inputs())
    assert caught.value.status() == "StatusCode.NOT_FOUND"
    assert caught.value.message() == "Request for unknown model: 'nope ü%' is not found"
    with pytest.raises(InferenceServerException, match="the model does not like it") as caught:
        client.infer("failing", inputs(INPUT0=np.zeros((1, 1), np.float32)))
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_tells_about_server_and_models(client, served):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert not client.is_model_ready("simple", "9")
    assert not client.is_model_ready("nope")
    assert client.get_server_metadata().name == "triton"
    assert client.get_model_metadata("simple").inputs[0].shape == [-1, 16]
    assert client.get_model_config("simple").config.max_batch_size == 8
    assert client.get_inference_statistics("simple").model_stats[0].inference_count == 3
    assert "never_loaded" in [model.name for model in client.get_model_repository_index().models]
    served.core.is_ready = False
    assert not client.is_server_ready()


def broken(*_):
    raise LookupError("a bug of ours")


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("repository_index", lambda client: client.get_model_repository_index()),
        ("server_metadata", lambda client: client.get_server_metadata()),
    ],
)
def test_a_call_that_breaks_is_answered_all_the_same(client, served, monkeypatch, name, ask):
    monkeypatch.setattr(served.core, name, broken)
    with pytest.raises(InferenceServerException, match=r"INTERNAL.*LookupError: a bug of ours"):
        ask(client)
    assert client.is_server_live()


def test_loads_and_unloads(client, served):
    client.load_model("m", config="{}", files={"file:1/model.onnx": b"\x01"})
    client.unload_model("m", unload_dependents=True)
    assert served.core.loaded == [("m", {"config": "{}", "file:1/model.onnx": b"\x01"})]
    assert served.core.unloaded == [("m", True)]
    with pytest.raises(InferenceServerException, match="failed to load 'broken'"):
        client.load_model("broken")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda c: c.register_system_shared_memory("r", "k", 8),
            "Client shared memory is disabled",
        ),
        (lambda c: c.unregister_cuda_shared_memory(), "Client shared memory is disabled"),
    ],
    ids=["register", "unregister"],
)
def test_what_is_switched_off_says_so(client, call, text):
    with pytest.raises(InferenceServerException, match=text) as caught:
        call(client)
    assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


def test_no_region_is_listed(client):
    assert len(client.get_system_shared_memory_status().regions) == 0
    with pytest.raises(
        InferenceServerException, match="Unable to find system shared memory region"
    ):
        client.get_system_shared_memory_status("r")


def test_many_threads_share_one_channel(client):
    wrong = []

    def work(seed):
        for step in range(50):
            array = np.full((1, 16), 100 * seed + step, np.int32)
            answer = client.infer("simple", inputs(INPUT0=array, INPUT1=B))
            if not (answer.as_numpy("OUTPUT0") == array + B).all():
                wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def stream(client, **options):
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), **options)
    return answers


def test_a_stream_answers_in_order_with_errors_in_their_place(client):
    answers = stream(client)
    for number in range(60):
        model = "nope" if number == 30 else "simple"
        client.async_stream_infer(model, inputs(), request_id=str(number))
    for number in range(60):
        result, error = answers.get(timeout=20)
        if number == 30:
            assert "unknown model: 'nope'" in str(error)
        else:
            assert result.get_response().id == str(number)
            assert result.get_response().parameters["triton_final_response"].bool_param is True
    client.stop_stream()


def test_a_stream_keeps_the_order_when_answers_come_in_another(client, served):
    answers = stream(client)
    one = np.zeros((1, 1), np.float32)
    for number in range(4):
        client.async_stream_infer("held", inputs(INPUT0=one + number), request_id=str(number))
    served.wait_until(lambda: len(served.core.waiting) == 4)
    for request in reversed(list(served.core.waiting)):
        served.call(lambda request=request: served.core.release(request))
    found = [answers.get(timeout=20)[0] for _ in range(4)]
    assert [result.get_response().id for result in found] == ["0", "1", "2", "3"]
    assert [result.as_numpy("OUTPUT0").item() for result in found] == [0, 1, 2, 3]
    client.stop_stream()


def test_closing_a_stream_delivers_what_is_outstanding(client, served):
    answers = stream(client)
    for number in range(3):
        client.async_stream_infer(
            "held", inputs(INPUT0=np.zeros((1, 1), np.float32)), request_id=str(number)
        )
    served.wait_until(lambda: len(served.core.waiting) == 3)
    closing = threading.Thread(target=client.stop_stream)
    closing.start()
    served.call(served.core.release)
    assert [answers.get(timeout=20)[0].get_response().id for _ in range(3)] == ["0", "1", "2"]
    closing.join(20)
    assert not closing.is_alive()


def test_cancelling_a_stream_cancels_its_requests(client, served):
    answers = stream(client)
    for _ in range(3):
        client.async_stream_infer("held", inputs(INPUT0=np.zeros((1, 1), np.float32)))
    served.wait_until(lambda: len(served.core.waiting) == 3)
    client.stop_stream(cancel_requests=True)
    assert answers.get(timeout=20)[1].status() == "StatusCode.CANCELLED"
    served.wait_until(lambda: len(served.core.cancelled) == 3)


def test_a_strict_stream_ends_with_the_status_of_its_first_failure(client):
    answers = stream(client, headers={"triton_grpc_error": "true"})
    client.async_stream_infer("nope", inputs())
    _, error = answers.get(timeout=20)
    assert error.status() == "StatusCode.NOT_FOUND"
    client.stop_stream()


def test_large_messages_go_through_a_stream(client):
    answers = stream(client)
    arrays = [np.full((1, 1 << 20), number, np.float32) for number in range(6)]
    for array in arrays:
        client.async_stream_infer("ident", inputs(INPUT0=array))
    for array in arrays:
        result, error = answers.get(timeout=30)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)
    client.stop_stream()


def test_a_cancelled_call_reaches_the_core(client, served):
    done: queue.Queue[Any] = queue.Queue()
    call = client.async_infer(
        "held",
        inputs(INPUT0=np.zeros((1, 1), np.float32)),
        lambda result, error: done.put(error),
    )
    served.wait_until(lambda: len(served.core.waiting) == 1)
    call.cancel()
    assert done.get(timeout=20).status() == "StatusCode.CANCELLED"
    served.wait_until(lambda: len(served.core.cancelled) == 1)
    assert client.is_server_live()


def test_a_deadline_reaches_the_core_and_ends_the_call(client, served):
    with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
        client.infer("held", inputs(INPUT0=np.zeros((1, 1), np.float32)), client_timeout=0.3)
    served.wait_until(lambda: len(served.core.cancelled) == 1)
    request = served.core.cancelled[0]
    assert 0 < request.deadline_ns - request.received_ns <= 330_000_000  # grpcio rounds up


async def test_the_asyncio_client_passes_the_same_calls(served):
    async with aio_client.InferenceServerClient(served.grpc_address) as client:
        assert await client.is_server_live()
        for _ in range(2):
            answer = await client.infer("simple", inputs(aio_client), request_id="1")
            np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), A + B)
        with pytest.raises(InferenceServerException, match="unknown model: 'nope'"):
            await client.infer("nope", inputs(aio_client))

        async def requests():
            for number in range(5):
                yield {
                    "model_name": "simple",
                    "inputs": inputs(aio_client),
                    "request_id": str(number),
                }

        found = []
        async for result, error in client.stream_infer(requests()):
            assert error is None
            found.append(result.get_response().id)
        assert found == ["0", "1", "2", "3", "4"]


def three(elements):
    request = pb.ModelInferRequest(model_name="three")
    for number in range(3):
        entry = request.inputs.add(name=f"INPUT{number}", datatype="FP32")
        entry.shape.extend([1, elements])
        request.raw_input_contents.append(np.full(elements, number, np.float32).tobytes())
    return request


@pytest.mark.parametrize("elements", [0, 2, 10_000])
def test_any_number_of_tensors_in_any_size_comes_back(served, elements):
    request = three(elements)
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, "/inference.GRPCInferenceService/ModelInfer")
        for id_ in ("", "", "7", ""):
            request.id = id_
            answer = pb.ModelInferResponse.FromString(call(request.SerializeToString(), timeout=20))
            assert answer.raw_output_contents == request.raw_input_contents
            assert answer.id == id_


def connections(served):
    return served.call(lambda: set(served.grpc.connections))


def test_an_answer_that_can_not_be_written_costs_nobody_else_theirs(served):
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, "/inference.GRPCInferenceService/ModelInfer")
        request = three(2).SerializeToString()
        before = connections(served)
        assert call(request, timeout=20)
        mine = connections(served) - before
        served.core.spoil = lambda answer: InferResponse(answer.head, answer.data[:1])
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=20)
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        with pytest.raises(grpc.RpcError) as caught:
            list(stream(iter([request]), timeout=20))
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        served.core.spoil = None
        assert call(request, timeout=20)
        assert mine
        assert mine <= connections(served)
        served.core.spoil = lambda answer: InferResponse(answer.head, [b"12", *answer.data[1:]])
        answer = pb.ModelInferResponse.FromString(call(request, timeout=20))
        assert [len(data) for data in answer.raw_output_contents] == [2, 8, 8]


def test_a_deadline_that_passes_in_the_core_has_its_own_status(served):
    served.core.models["late"] = replace(served.core.models["failing"], name="late", compute=late)
    request = three(2)
    request.model_name = "late"
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, "/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=0.05)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def late(request):
    time.sleep(0.06)
    raise DeadlineExceeded("Request timeout expired")


@pytest.mark.parametrize("elements", [10, 100_000])
def test_answers_are_compressed_for_those_who_accept_it(elements):
    with serving(grpc=GrpcOptions(compression_level=1)) as served:
        request = three(elements)
        with grpc.insecure_channel(served.grpc_address) as channel:
            call = unary(channel, "/inference.GRPCInferenceService/ModelInfer")
            for _ in range(2):
                answer = call(request.SerializeToString(), timeout=20)
                response = pb.ModelInferResponse.FromString(answer)
                assert response.raw_output_contents == request.raw_input_contents
        with closing(served.connect_grpc()) as sock:
            raw = RawH2(sock)
            accepting = raw.open(raw.headers(extra=[("grpc-accept-encoding", "gzip")]))
            raw.data(accepting)
            other = raw.open(raw.headers())
            raw.data(other)
            assert (raw.status(accepting), raw.status(other)) == ("0", "0")
            assert (raw.body(accepting)[0], raw.body(other)[0]) == (1, 0)


def test_clients_that_accept_no_compression_spoil_it_for_nobody():
    with (
        serving(grpc=GrpcOptions(compression_level=1)) as served,
        closing(served.connect_grpc()) as sock,
    ):
        raw = RawH2(sock)
        for accepts in (0, 0, 1, 0, 1):
            extra = [("grpc-accept-encoding", "gzip")] if accepts else []
            opened = raw.open(raw.headers(extra=extra))
            raw.data(opened)
            assert (raw.status(opened), raw.body(opened)[0]) == ("0", accepts)


def test_answers_of_a_stream_are_compressed_for_those_who_accept_it():
    with serving(grpc=GrpcOptions(compression_level=1)) as served:
        with closing(served.connect_grpc()) as sock:
            raw = RawH2(sock)
            for accepts in (1, 0):
                extra = [("grpc-accept-encoding", "gzip")] if accepts else []
                opened = raw.open(raw.headers(STREAM, extra=extra))
                raw.data(opened)
                assert (raw.status(opened), raw.body(opened)[0]) == ("0", accepts)
        with closing(sync_client.InferenceServerClient(served.grpc_address)) as client:
            answers = stream(client)
            # Large ones take a thread, and the small ones behind them wait.
            sizes = [300_000, 1, 100_000, 5, 7, 2_000_000, 3]
            for size in sizes:
                client.async_stream_infer(
                    "ident", inputs(INPUT0=np.full((1, size), size, np.float32))
                )
            for size in sizes:
                result, error = answers.get(timeout=30)
                assert error is None
                array = result.as_numpy("OUTPUT0")
                assert (array.shape, array[0, 0], array[0, -1]) == ((1, size), size, size)
            client.stop_stream()


def no_memory(*_):
    raise MemoryError


@pytest.mark.parametrize("elements", [10, 100_000])
def test_what_can_not_be_compressed_is_sent_as_it_is(monkeypatch, elements):
    monkeypatch.setattr(compression, "deflate", no_memory)
    array = np.full((1, elements), 3, np.float32)
    with (
        serving(grpc=GrpcOptions(compression_level=1)) as served,
        closing(sync_client.InferenceServerClient(served.grpc_address)) as client,
    ):
        answer = client.infer("ident", inputs(INPUT0=array), client_timeout=20)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)
        answers = stream(client)
        client.async_stream_infer("ident", inputs(INPUT0=array))
        result, error = answers.get(timeout=20)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)
        client.stop_stream()


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_a_stream_takes_compressed_messages_of_any_size_in_their_order(client, algorithm):
    sizes = [4, 20_000_000, 3, 50_000, 1]
    answers = stream(client, compression_algorithm=algorithm)
    for size in sizes:
        client.async_stream_infer("ident", inputs(INPUT0=np.full((1, size), size, np.float32)))
    for size in sizes:
        result, error = answers.get(timeout=60)
        assert error is None, error
        array = result.as_numpy("OUTPUT0")
        assert (array.shape, array[0, 0], array[0, -1]) == ((1, size), size, size)
    client.stop_stream()


def test_a_compressed_message_that_is_none_ends_its_stream(served):
    with closing(served.connect_grpc()) as sock:
        raw = RawH2(sock)
        for size in (10, 40_000):
            opened = raw.open(raw.headers(STREAM, extra=[("grpc-encoding", "gzip")]))
            framed = grpc_frame(bytes(size), flag=1)
            for start in range(0, len(framed), 16384):
                raw.data(opened, framed[start : start + 16384], end=False)
            assert raw.status(opened) == "13"


def test_a_response_of_a_decoupled_model_may_be_as_large_as_it_likes(client, served, monkeypatch):
    data = bytes(80 << 20)
    head = ResponseHead("ident", "1", (TensorHead("OUTPUT0", "FP32", (1, len(data) // 4)),))

    def infer(request):
        request.version = Version(config=Config(decoupled=True))
        request.partial(request, InferResponse(head, [data]))
        request.done(request, InferResponse(ResponseHead("ident", "1", (), empty=True), []))

    monkeypatch.setattr(served.core, "infer", infer)
    answers = stream(client)
    client.async_stream_infer("ident", inputs(INPUT0=A.astype(np.float32)))
    result, error = answers.get(timeout=60)
    assert error is None, error
    assert result.as_numpy("OUTPUT0").nbytes == len(data)
    client.stop_stream()


def test_an_answer_that_is_too_large_for_a_message_is_a_fault(client, monkeypatch):
    monkeypatch.setattr(grpc_answer, "MESSAGE_LIMIT", 1000)
    array = np.zeros((1, 250), np.float32)
    with pytest.raises(InferenceServerException) as caught:
        client.infer("ident", inputs(INPUT0=array))
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert caught.value.message() == "the response exceeds 1000 bytes"
    answers = stream(client)
    for each in (array, array[:, :9]):
        client.async_stream_infer("ident", inputs(INPUT0=each))
    assert "the response exceeds 1000 bytes" in str(answers.get(timeout=20)[1])
    assert answers.get(timeout=20)[1] is None
    client.stop_stream()


def test_initial_metadata_names_version_and_arm(served):
    served.core.arm = "canary"
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, "/inference.GRPCInferenceService/ModelInfer")
        request = inference_message("simple")
        for _ in range(2):
            _, about = call.with_call(request, timeout=20)
            metadata = dict(about.initial_metadata())
            assert (metadata["x-model-version"], metadata["x-rollout-arm"]) == ("1", "canary")


def test_the_traffic_unit_comes_from_the_metadata_the_core_names(served):
    served.core.unit = "x-user"
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, "/inference.GRPCInferenceService/ModelInfer")
        call(inference_message("simple"), metadata=(("x-user", "ann"),), timeout=20)
        assert served.core.seen[-1].traffic_unit == "ann"
        call(inference_message("simple"), timeout=20)
        assert served.core.seen[-1].traffic_unit == ""


@pytest.mark.parametrize("elements", [3, 300_000])
@pytest.mark.parametrize("mixed", [True, False])
def test_typed_strings_go_through_however_many(served, elements, mixed):
    request = pb.ModelInferRequest(model_name="ident_str", id="7")
    entry = request.inputs.add(name="INPUT0", datatype="BYTES")
    entry.shape.extend([1, elements])
    texts = [b"x" * (number % 5 if mixed else 4) for number in range(elements)]
    entry.contents.bytes_contents.extend(texts)
    with grpc.insecure_channel(served.grpc_address) as channel:
        call = unary(channel, "/inference.GRPCInferenceService/ModelInfer")
        answer = pb.ModelInferResponse.FromString(call(request.SerializeToString(), timeout=60))
        assert answer.id == "7"
        assert byte_strings.unpack(answer.raw_output_contents[0]) == texts
        request.inputs[0].contents.fp32_contents.append(1)
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=60)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def inference_message(model):
    request = pb.ModelInferRequest(model_name=model)
    for name, array in (("INPUT0", A), ("INPUT1", B)):
        entry = request.inputs.add(name=name, datatype="INT32")
        entry.shape.extend(array.shape)
        request.raw_input_contents.append(array.tobytes())
    return request.SerializeToString()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/inference.GRPCInferenceService/Nope", grpc.StatusCode.UNIMPLEMENTED),
        ("/grpc.health.v1.Health/Watch", grpc.StatusCode.UNIMPLEMENTED),
        ("/inference.GRPCInferenceService/ModelMetadata", grpc.StatusCode.INVALID_ARGUMENT),
        ("/inference.GRPCInferenceService/ModelInfer", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_what_can_not_be_read_or_served_has_its_status(served, path, status):
    with grpc.insecure_channel(served.grpc_address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            unary(channel, path)(b"\xff\xff", timeout=20)
        assert caught.value.code() is status
        assert caught.value.details()


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("service", [b"", b"\x0a\x08anything"])
def test_the_health_service_answers_for_the_whole_server(served, ready, service):
    served.core.is_ready = ready
    with grpc.insecure_channel(served.grpc_address) as channel:
        answer = unary(channel, "/grpc.health.v1.Health/Check")(service, timeout=20)
    assert answer == (b"\x08\x01" if ready else b"\x08\x02")
