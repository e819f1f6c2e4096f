"""Which "no" of a server is a refusal, which is no connection, and which a missing extension."""

from concurrent import futures

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.webapp.runtime_client.runtime_process import free_ports
from webapp.runtime_client.client import RuntimeClient
from webapp.runtime_client.connections import connect, stand_in
from webapp.runtime_client.errors import RuntimeRefused, RuntimeUnreachable
from webapp.runtime_client.fake import FakeRuntime


class _StockTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """A server in another control mode, and one that speaks the standard protocol only."""

    def ServerMetadata(self, request, context):
        return service_pb2.ServerMetadataResponse(
            name="triton", version="2.50.0", extensions=["model_repository", "statistics"]
        )

    def RepositoryModelLoad(self, request, context):
        context.abort(
            grpc.StatusCode.UNAVAILABLE,
            "explicit model load / unload is not allowed if polling is enabled",
        )

    def ModelReady(self, request, context):
        context.abort(
            grpc.StatusCode.UNAVAILABLE,
            f"Request for unknown model: '{request.name}' version 1 is not at ready state",
        )


@pytest.fixture
def triton():
    server = grpc.server(futures.ThreadPoolExecutor(2))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_StockTriton(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    (http_port,) = free_ports(1)
    client = RuntimeClient(f"127.0.0.1:{http_port}", f"127.0.0.1:{port}", 2.0)
    yield client
    client.close()
    server.stop(0).wait()


def test_a_servers_unavailable_is_a_refusal_with_its_own_words(triton):
    with pytest.raises(RuntimeRefused, match="not allowed if polling") as refusal:
        triton.load("echo")
    assert refusal.value.status == 503
    with pytest.raises(RuntimeRefused, match="not at ready state"):
        triton.model_ready("channel-endpoint", 1)


def test_a_call_the_server_does_not_have_is_a_refusal(triton):
    with pytest.raises(RuntimeRefused) as refusal:
        triton.index()
    assert refusal.value.status == 501


def test_no_http_port_is_unreachable_even_when_grpc_answers(triton):
    with pytest.raises(RuntimeUnreachable):
        triton.traffic_tables()


def test_connections_are_shared_by_address_and_can_be_stood_in_for(tmp_path):
    addresses = {
        "http_address": "127.0.0.1:1",
        "grpc_address": "127.0.0.1:2",
        "metrics_address": "",
    }
    assert connect(**addresses) is connect(**addresses)
    fake = FakeRuntime(tmp_path)
    stand_in("127.0.0.1:2", fake)
    assert connect(**addresses) is fake
    stand_in("127.0.0.1:2", None)
    assert connect(**addresses) is not fake
