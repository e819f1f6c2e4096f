"""Section 9.4 of the compliance checklist: cancelling, deadlines, compression; and the port's options."""

import threading
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import trustme
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.utils import InferenceServerException

from tests.conformance.runtime_process import find_ports, runtime
from tests.onnx_models import identity, slow, write_model

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "ident", identity(), config="max_batch_size: 8")
    write_model(path, "slow", slow(), config="instance_group { count: 1 kind: KIND_CPU }")
    return path


def slow_input(iterations: int):
    tensor = grpcclient.InferInput("ITERATIONS", [1], "INT64")
    tensor.set_data_from_numpy(np.array([iterations], np.int64))
    return tensor


def ident_input(array):
    tensor = grpcclient.InferInput("INPUT0", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return tensor


def statistics(client, model="slow"):
    return client.get_inference_statistics(model).model_stats[0]


@contextmanager
def busy(server):
    """The only instance of `slow` executes for as long as the block lasts, and some time more."""
    answers = []
    done = threading.Event()

    def answered(result, error):
        answers.append((result, error))
        done.set()

    def inflight():
        return server.call("GET", "/v2/switchyard/statistics")[1]["models"]

    with server.grpc_client() as client:
        client.async_infer("slow", [slow_input(5000)], answered)
        server.wait_for(
            lambda: any(entry["model"] == "slow" and entry["inflight"] for entry in inflight()),
            "a request in flight",
        )
        yield
        assert done.wait(30)
    assert answers[0][1] is None


def test_check_086_a_cancelled_request_does_not_reach_the_model(server):
    with server.grpc_client() as client:
        before = statistics(client)
        heard = threading.Event()
        errors = []

        def answered(result, error):
            errors.append(error)
            heard.set()

        with busy(server):
            context = client.async_infer("slow", [slow_input(1)], answered)
            context.cancel()
            assert heard.wait(20)
        assert errors[0].status() == "StatusCode.CANCELLED"
        after = statistics(client)
        assert after.execution_count == before.execution_count + 1
        assert after.inference_stats.success.count == before.inference_stats.success.count + 1


def test_check_087_a_deadline_ends_the_call_and_cancels_the_request(server):
    with server.grpc_client() as client:
        before = statistics(client)
        with busy(server):
            with pytest.raises(InferenceServerException) as caught:
                client.infer("slow", [slow_input(1)], client_timeout=0.05)
            assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
            assert "Deadline Exceeded" in str(caught.value)
        assert statistics(client).execution_count == before.execution_count + 1


@pytest.mark.parametrize("level", ["none", "high"])
def test_check_088_compressed_requests_and_answers(repository, tmp_path, level):
    array = np.zeros((2, 100_000), np.float32)
    options = (f"--grpc-infer-response-compression-level={level}", "--load-model=ident")
    with runtime(repository, tmp_path / "log", *options) as server, server.grpc_client() as client:
        for algorithm in (None, "gzip", "deflate"):
            for data in (array, array[:, :5]):
                result = client.infer(
                    "ident", [ident_input(data)], compression_algorithm=algorithm, request_id="x"
                )
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), data)


def test_check_015_health_of_the_standard_service(server):
    with grpc.insecure_channel(server.grpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "anything", "inference.GRPCInferenceService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            list(stub.Watch(health_pb2.HealthCheckRequest(), timeout=20))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_check_015_a_failed_model_of_a_strict_server_is_not_serving(repository, tmp_path):
    write_model(tmp_path / "r", "broken", identity())
    (tmp_path / "r/broken/1/model.onnx").write_bytes(b"broken")
    options = ("--exit-on-error=false", "--load-model=broken")
    with runtime(tmp_path / "r", tmp_path / "log", *options, wait=False) as server:
        server.wait_for(lambda: find_ports(server), "the port in the log")
        with grpc.insecure_channel(server.grpc) as channel:
            stub = health_pb2_grpc.HealthStub(channel)

            def status():
                return stub.Check(health_pb2.HealthCheckRequest(), timeout=20).status

            server.wait_for(lambda: "1 failed" in server.log, "the failed load")
            assert status() == health_pb2.HealthCheckResponse.NOT_SERVING


def test_reflection_describes_the_services(server):
    with grpc.insecure_channel(server.grpc) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert set(database.get_services()) == {
            "inference.GRPCInferenceService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("inference.GRPCInferenceService")
        assert service.FindMethodByName("ModelInfer").input_type.full_name == (
            "inference.ModelInferRequest"
        )
        assert pool.FindMessageTypeByName("inference.ModelConfig").fields_by_name["max_batch_size"]
        assert pool.FindServiceByName("grpc.health.v1.Health").methods_by_name["Check"]
        assert pool.FindServiceByName("grpc.reflection.v1.ServerReflection")


def test_reflection_answers_every_question(server):
    request = reflection_pb2.ServerReflectionRequest
    questions = [
        request(host="h", file_containing_symbol="inference.ModelInferRequest.InferInputTensor"),
        request(file_by_filename="nowhere.proto"),
        request(file_containing_symbol="inference.Nothing"),
        request(all_extension_numbers_of_type="inference.ModelConfig"),
        request(all_extension_numbers_of_type="inference.Nothing"),
        request(
            file_containing_extension=reflection_pb2.ExtensionRequest(
                containing_type="inference.ModelConfig", extension_number=7
            )
        ),
    ]
    with grpc.insecure_channel(server.grpc) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        answers = list(stub.ServerReflectionInfo(iter(questions), timeout=20))
        path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        newer: Any = channel.stream_stream(path)
        with pytest.raises(grpc.RpcError) as caught:
            list(newer(iter([b"\xff"]), timeout=20))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [answer.original_request for answer in answers] == questions
    assert answers[0].valid_host == "h"
    assert len(answers[0].file_descriptor_response.file_descriptor_proto) == 2
    kinds = [answer.WhichOneof("message_response") for answer in answers]
    assert kinds == [
        "file_descriptor_response",
        "error_response",
        "error_response",
        "all_extension_numbers_response",
        "error_response",
        "error_response",
    ]
    assert answers[1].error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Paths of PEM files: the server's certificate and key, its root, and a client's."""
    path = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    files = {"root": path / "root.pem"}
    authority.cert_pem.write_to_path(str(files["root"]))
    for name in ("server", "client"):
        certificate = authority.issue_cert("127.0.0.1")
        files[f"{name}_cert"], files[f"{name}_key"] = path / f"{name}.pem", path / f"{name}.key"
        certificate.private_key_pem.write_to_path(str(files[f"{name}_key"]))
        for blob in certificate.cert_chain_pems:
            blob.write_to_path(str(files[f"{name}_cert"]), append=True)
    return {name: str(file) for name, file in files.items()}


def tls_options(certificates, *more):
    return (
        "--load-model=ident",
        f"--grpc-server-cert={certificates['server_cert']}",
        f"--grpc-server-key={certificates['server_key']}",
        f"--grpc-root-cert={certificates['root']}",
        *more,
    )


def ask_over_tls(server, certificates, *, size=4, mutual=False):
    more = {}
    if mutual:
        more = {
            "private_key": certificates["client_key"],
            "certificate_chain": certificates["client_cert"],
        }
    array = np.ones((1, size), np.float32)
    with grpcclient.InferenceServerClient(
        server.grpc, ssl=True, root_certificates=certificates["root"], **more
    ) as client:
        result = client.infer("ident", [ident_input(array)], client_timeout=30)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)


def test_grpc_over_tls(repository, tmp_path, certificates):
    options = tls_options(certificates, "--grpc-use-ssl=true")
    with runtime(repository, tmp_path / "log", *options) as server:
        for size in (4, 3_000_000):
            ask_over_tls(server, certificates, size=size)
        with server.grpc_client() as client, pytest.raises(InferenceServerException):
            client.is_server_live(client_timeout=5)
        # A client that trusts somebody else costs nobody anything.
        stranger = grpc.ssl_channel_credentials(trustme.CA().cert_pem.bytes())
        with grpc.secure_channel(server.grpc, stranger) as channel:
            live: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            with pytest.raises(grpc.RpcError):
                live(b"", timeout=5)
        ask_over_tls(server, certificates)
        assert server.terminate() == 0


def test_grpc_over_mutual_tls(repository, tmp_path, certificates):
    options = tls_options(certificates, "--grpc-use-ssl-mutual=true")
    with runtime(repository, tmp_path / "log", *options) as server:
        ask_over_tls(server, certificates, mutual=True)
        with pytest.raises(InferenceServerException):
            ask_over_tls(server, certificates)
        ask_over_tls(server, certificates, mutual=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grpc-use-ssl=true"], "--grpc-use-ssl wants --grpc-server-cert"),
        (
            ["--grpc-use-ssl=true", "--grpc-server-cert=/no", "--grpc-server-key=/no"],
            "failed to start GRPC service: Unavailable - the certificate, key or root",
        ),
    ],
)
def test_tls_that_can_not_be_set_up_ends_the_start(repository, tmp_path, options, message):
    with runtime(repository, tmp_path / "log", *options, wait=False) as server:
        assert server.wait_exit() == 1
        assert message in server.log
