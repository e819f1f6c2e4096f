"""Section 9.11 of the compliance checklist: the end of a server with work, and an index of hostile depth."""

import http.client
import signal
import threading
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.conformance.runtime_process import runtime
from tests.onnx_models import add_constant, slow, write_model

pytestmark = [pytest.mark.conformance, pytest.mark.slow]
SHUTTING_DOWN = "GRPC server is shutting down and has stopped accepting new requests."


def slow_input(module, iterations=1200):
    tensor = module.InferInput("ITERATIONS", [1], "INT64")
    tensor.set_data_from_numpy(np.array([iterations], np.int64))
    return tensor


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_check_180_work_in_flight_is_finished_and_new_work_refused(tmp_path, number):
    write_model(tmp_path / "r", "slow", slow(), config="instance_group { count: 1 kind: KIND_CPU }")
    answers, failures = [], []
    with runtime(tmp_path / "r", tmp_path / "log", mode="none") as server:

        def call(module, address):
            client = module.InferenceServerClient(address)
            try:
                answers.append(client.infer("slow", [slow_input(module)]).as_numpy("OUTPUT0"))
            except InferenceServerException as error:
                failures.append(error)
            finally:
                client.close()

        pairs = [(httpclient, server.http), (grpcclient, server.grpc)] * 2
        threads = [threading.Thread(target=call, args=pair) for pair in pairs]
        open_http = http.client.HTTPConnection(server.http, timeout=20)
        open_http.request("GET", "/v2")
        assert open_http.getresponse().read()
        streamed = []
        with server.grpc_client() as open_grpc:
            assert open_grpc.is_server_live()
            open_grpc.start_stream(lambda result, error: streamed.append(error))
            for thread in threads:
                thread.start()

            def inflight():
                models = server.call("GET", "/v2/switchyard/statistics")[1]["models"]
                return sum(entry["inflight"] for entry in models)

            server.wait_for(lambda: inflight() == 4, "four requests, most of them queued")
            server.process.send_signal(number)
            server.wait_for(lambda: "Waiting for in-flight" in server.log, "the drain")
            # What is open stays open, and says what happens.
            open_http.request("GET", "/v2")
            assert open_http.getresponse().read()
            for path, text in (
                ("/v2/health/ready", b"Server exiting"),
                ("/v2/health/live", b"Server exiting"),
            ):
                open_http.request("GET", path)
                answer = open_http.getresponse()
                assert (answer.status, text in answer.read()) == (503, True)
            with pytest.raises(InferenceServerException) as caught:
                open_grpc.infer("slow", [slow_input(grpcclient, 1)])
            assert caught.value.status() == "StatusCode.UNAVAILABLE"
            assert SHUTTING_DOWN in str(caught.value)
            with pytest.raises(InferenceServerException, match="Server exiting"):
                open_grpc.is_server_live()
            open_grpc.async_stream_infer("slow", [slow_input(grpcclient, 1)])
            server.wait_for(lambda: streamed, "an answer on the stream")
            assert SHUTTING_DOWN in str(streamed[0])
            with grpc.insecure_channel(server.grpc) as channel:
                path = "/inference.GRPCInferenceService/ServerMetadata"
                metadata: Any = channel.unary_unary(path)
                with pytest.raises(grpc.RpcError) as new:
                    metadata(b"", timeout=5)
            assert new.value.code() is grpc.StatusCode.UNAVAILABLE
            assert server.wait_exit() == 0
        for thread in threads:
            thread.join(20)
        open_http.close()
    assert failures == []
    assert len(answers) == 4


def test_check_181_an_index_request_of_hostile_depth(tmp_path):
    write_model(tmp_path / "r", "m", add_constant(1))
    with runtime(tmp_path / "r", tmp_path / "log", "--load-model=m") as server:
        depth = 250_000
        connection = http.client.HTTPConnection(server.http, timeout=20)
        connection.request(
            "POST", "/v2/repository/index", b'{"ready":' + b"[" * depth + b"]" * depth + b"}"
        )
        answer = connection.getresponse()
        assert answer.status == 400
        assert b"Invalid value for 'ready': expected a boolean" in answer.read()
        connection.close()
        assert server.ready()
        assert server.call("POST", "/v2/repository/index", {"ready": True})[1][0]["name"] == "m"
