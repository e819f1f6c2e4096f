"""Section 9.12 of the compliance checklist: the trace extension."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from inference_runtime import pb
from tests.conformance.python_world import PythonWorld
from tests.conformance.runtime_process import runtime
from tests.onnx_models import add_sub, identity, write_model

pytestmark = pytest.mark.conformance
DATA = np.arange(16, dtype=np.int32).reshape(1, 16)
PHASES = (
    "REQUEST_START",
    "QUEUE_START",
    "COMPUTE_START",
    "COMPUTE_INPUT_END",
    "COMPUTE_OUTPUT_START",
    "COMPUTE_END",
    "REQUEST_END",
)
CHAIN = """
platform: "ensemble"
max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [16] }
output { name: "Y" data_type: TYPE_INT32 dims: [16] }
ensemble_scheduling {
  step {
    model_name: "simple" model_version: -1
    input_map { key: "INPUT0" value: "X" } input_map { key: "INPUT1" value: "X" }
    output_map { key: "OUTPUT0" value: "twice" }
  }
  step {
    model_name: "simple" model_version: -1
    input_map { key: "INPUT0" value: "twice" } input_map { key: "INPUT1" value: "X" }
    output_map { key: "OUTPUT0" value: "Y" }
  }
}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    write_model(path, "strings", identity("BYTES"))
    (path / "chain/1").mkdir(parents=True)
    (path / "chain/config.pbtxt").write_text(CHAIN)
    return path


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    return tmp_path_factory.mktemp("traces") / "trace.json"


@pytest.fixture(scope="module")
def options(trace_file):
    return (
        "--load-model=*",
        f"--trace-config=triton,file={trace_file}",
        "--trace-config=rate=1000",
    )


@pytest.fixture
def defaults(trace_file):
    return {
        "trace_level": ["OFF"],
        "trace_rate": "1000",
        "trace_count": "-1",
        "log_frequency": "0",
        "trace_file": str(trace_file),
        "trace_mode": "triton",
    }


@pytest.fixture(autouse=True)
def restored(server):
    yield
    clear = {"trace_level": None, "trace_rate": None, "trace_count": None, "log_frequency": None}
    for path in ("/v2/models/simple/trace/setting", "/v2/trace/setting"):
        assert server.call("POST", path, clear)[0] == 200


def settings_of(client, found):
    if client.over_http:
        return found
    texts = {key: list(setting.value) for key, setting in found.settings.items()}
    return {key: text if key == "trace_level" else text[0] for key, text in texts.items()}


def infer(server, *, times=1, **more):
    with server.grpc_client() as client:
        inputs = [grpcclient.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
        for tensor in inputs:
            tensor.set_data_from_numpy(DATA)
        for _ in range(times):
            client.infer("simple", inputs, **more)


def traces(path):
    """The rows of a trace file, by trace: head, moments by name, tensors."""
    found: dict[int, dict[str, Any]] = {}
    for row in json.loads(path.read_text()):
        trace = found.setdefault(row["id"], {"moments": {}, "tensors": []})
        if "model_name" in row:
            trace |= row
        trace["moments"] |= {stamp["name"]: stamp["ns"] for stamp in row.get("timestamps", [])}
        if "tensor" in row:
            trace["tensors"].append((row["activity"], row["tensor"]))
    return list(found.values())


def test_check_194_default_override_clear_inherit(client, defaults):
    def get(model=None):
        return settings_of(client, client.get_trace_settings(model_name=model))

    def update(settings, model=None):
        return settings_of(
            client, client.update_trace_settings(model_name=model, settings=settings)
        )

    assert get() == get("simple") == defaults
    model = {**defaults, "trace_level": ["TIMESTAMPS"], "trace_rate": "9"}
    assert update({"trace_level": ["TIMESTAMPS"], "trace_rate": "9"}, "simple") == model
    assert (get(), get("strings")) == (defaults, defaults)
    both = {"trace_level": ["TIMESTAMPS", "TENSORS"], "trace_rate": "5", "log_frequency": "3"}
    changed = {**defaults, **both}
    assert update(both) == changed
    # What the model set stays, what it did not is the server's.
    assert get("simple") == {**model, "log_frequency": "3"}
    assert get("strings") == changed
    assert update({"trace_rate": None}, "simple") == {
        **model,
        "log_frequency": "3",
        "trace_rate": "5",
    }
    assert update({"trace_level": None}, "simple") == changed
    assert update({"trace_rate": None, "trace_level": None}) == {**defaults, "log_frequency": "3"}
    assert update({"trace_level": ["OFF"], "trace_count": "7"}) == {
        **defaults,
        "log_frequency": "3",
        "trace_count": "7",
    }
    assert update({"log_frequency": None, "trace_count": None}) == get("simple") == defaults


def test_check_194_unknown_levels_are_ignored(client, defaults):
    changed = client.update_trace_settings(settings={"trace_level": ["TENSORS", "NONSENSE"]})
    assert settings_of(client, changed) == {**defaults, "trace_level": ["TENSORS"]}


def test_check_195_the_file_can_not_be_changed(client, server, defaults):
    with pytest.raises(InferenceServerException) as caught:
        client.update_trace_settings(settings={"trace_file": "/tmp/x", "trace_rate": "1"})
    assert "trace file location can not be updated through network protocol" in str(caught.value)
    assert caught.value.status() in ("501", "StatusCode.UNIMPLEMENTED")
    assert server.call("GET", "/v2/trace/setting") == (200, defaults)


def test_check_195_unknown_models_are_refused(client):
    for call in (
        lambda: client.get_trace_settings(model_name="nobody"),
        lambda: client.update_trace_settings(model_name="nobody", settings={"trace_rate": "1"}),
    ):
        with pytest.raises(InferenceServerException) as caught:
            call()
        assert "Request for unknown model : nobody" in str(caught.value)
        assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"trace_rate": "-1"}, "value is out of range [ 0, 4294967295 ], got: -1"),
        ({"trace_rate": "4294967296"}, "value is out of range [ 0, 4294967295 ]"),
        ({"trace_rate": "often"}, "Unable to parse 'trace_rate', got: often"),
        ({"trace_count": "2147483648"}, "value is out of range [ -1, 2147483647 ]"),
        ({"trace_count": "-2"}, "Unable to parse 'trace_count'. Expecting value >= -1, got:"),
        ({"log_frequency": "-3"}, "Unable to parse 'log_frequency', value is out of range"),
        ({"trace_level": ["OFF", "TIMESTAMPS"]}, "Expect only one trace level 'OFF' is specified"),
        (
            {"trace_level": ["TIMESTAMPS"], "trace_rate": "0"},
            "Attempting to set invalid trace setting :sample rate must be non-zero",
        ),
    ],
)
def test_check_195_values_that_can_not_be_meant_are_refused(server, client, defaults, change, text):
    with pytest.raises(InferenceServerException) as caught:
        client.update_trace_settings(settings=change)
    assert text in str(caught.value)
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert server.call("GET", "/v2/trace/setting") == (200, defaults)


def test_check_195_types_are_checked(server, defaults):
    for change, text in (
        ({"trace_rate": 5}, "attempt to access JSON non-string as string"),
        ({"trace_level": "TIMESTAMPS"}, "attempt to access JSON non-array as array"),
    ):
        status, body = server.call("POST", "/v2/trace/setting", change)
        assert (status, text in body["error"]) == (400, True)  # Triton: 500; decision 3
    request = pb.TraceSettingRequest()
    request.settings["trace_rate"].value.extend(["1", "2"])
    with server.grpc_client() as client, pytest.raises(grpc.RpcError) as caught:
        client._client_stub.TraceSetting(request)
    assert "expect only 1 value for 'trace_rate'" in str(caught.value)
    assert server.call("GET", "/v2/trace/setting") == (200, defaults)


def test_check_196_a_count_of_five_writes_five_traces(server, trace_file):
    trace_file.unlink(missing_ok=True)
    change = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "5"}
    assert server.call("POST", "/v2/models/simple/trace/setting", change)[1]["trace_count"] == "5"
    infer(server, times=3, request_id="mine")
    assert server.call("GET", "/v2/models/simple/trace/setting")[1]["trace_count"] == "2"
    infer(server, times=4)
    assert server.call("GET", "/v2/models/simple/trace/setting")[1]["trace_count"] == "0"
    server.wait_for(trace_file.exists, "the trace file")
    server.wait_for(lambda: trace_file.read_text().endswith("]"), "the end of the trace file")
    found = traces(trace_file)
    assert len(found) == 5
    assert [trace.get("request_id") for trace in found] == ["mine"] * 3 + [None] * 2
    assert len({trace["id"] for trace in found}) == 5
    for trace in found:
        assert (trace["model_name"], trace["model_version"]) == ("simple", 1)
        moments = trace["moments"]
        order = [moments[name] for name in PHASES]
        assert order == sorted(order)
        assert moments["GRPC_WAITREAD_START"] <= moments["GRPC_WAITREAD_END"]
        assert moments["GRPC_WAITREAD_END"] <= moments["REQUEST_START"]
        assert moments["REQUEST_END"] <= moments["GRPC_SEND_START"] <= moments["GRPC_SEND_END"]


def test_check_196_rate_and_log_frequency(server, trace_file):
    change = {"trace_level": ["TIMESTAMPS"], "trace_rate": "3", "log_frequency": "2"}
    assert server.call("POST", "/v2/trace/setting", change)[0] == 200
    with server.http_client() as client:
        inputs = [httpclient.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
        for tensor in inputs:
            tensor.set_data_from_numpy(DATA)
        for _ in range(15):
            client.infer("simple", inputs)
    # 15 ÷ 3 traces, two to a file; the rest when the settings are replaced.
    for index, count in ((0, 2), (1, 2), (2, 1)):
        file = trace_file.with_name(f"{trace_file.name}.{index}")
        if index == 2:
            assert not file.exists()
            server.call("POST", "/v2/trace/setting", {"trace_level": ["OFF"]})
        server.wait_for(lambda: file.exists() and file.read_text().endswith("]"), str(file))  # noqa: B023
        found = traces(file)
        assert len(found) == count
        for trace in found:
            moments = trace["moments"]
            assert moments["HTTP_RECV_START"] <= moments["HTTP_RECV_END"]
            assert moments["HTTP_RECV_END"] <= moments["HTTP_SEND_START"]
            assert moments["HTTP_SEND_START"] <= moments["HTTP_SEND_END"]


def test_check_196_tensors_are_written_and_a_stop_writes_what_is_left(repository, tmp_path):
    file = tmp_path / "trace.json"
    options = ("rate=1", "level=TIMESTAMPS", "level=tensors", f"triton,file={file}")
    with runtime(
        repository, tmp_path / "log", "--load-model=*", *(f"--trace-config={o}" for o in options)
    ) as server:
        infer(server)
        with server.http_client() as client:
            tensor = httpclient.InferInput("INPUT0", [1, 2], "BYTES")
            tensor.set_data_from_numpy(np.array([[b'a"\n', b"b"]], object))
            client.infer("strings", [tensor])
            with pytest.raises(InferenceServerException):
                client.infer("simple", [tensor])
        assert not file.exists()
        assert server.terminate() == 0
        first, second, refused = traces(file)
    kinds = [activity for activity, _ in first["tensors"]]
    assert (
        kinds
        == ["TENSOR_QUEUE_INPUT"] * 2 + ["TENSOR_BACKEND_INPUT"] * 2 + ["TENSOR_BACKEND_OUTPUT"] * 2
    )
    assert first["tensors"][0][1] == {
        "name": "INPUT0",
        "data": ",".join(map(str, range(16))),
        "shape": "1,16",
        "dtype": "INT32",
    }
    assert first["tensors"][4][1]["data"] == ",".join(str(2 * n) for n in range(16))
    assert second["tensors"][0][1]["data"] == '"a\\"\\n","b"'
    assert "COMPUTE_START" not in refused["moments"]
    assert "REQUEST_END" in refused["moments"]


def test_check_196_streams_are_traced_request_by_request(server, trace_file):
    trace_file.unlink(missing_ok=True)
    change = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "2"}
    assert server.call("POST", "/v2/models/simple/trace/setting", change)[0] == 200
    answers = []
    with server.grpc_client() as client:
        client.start_stream(lambda result, error: answers.append(error or result))
        inputs = [grpcclient.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
        for tensor in inputs:
            tensor.set_data_from_numpy(DATA)
        for _ in range(2):
            client.async_stream_infer("simple", inputs)
        client.stop_stream()
    np.testing.assert_array_equal(answers[1].as_numpy("OUTPUT0"), DATA * 2)
    server.wait_for(
        lambda: trace_file.exists() and trace_file.read_text().endswith("]"), "the trace file"
    )
    assert [set(PHASES) <= set(trace["moments"]) for trace in traces(trace_file)] == [True, True]


def infer_chain(server):
    with server.grpc_client() as client:
        tensor = grpcclient.InferInput("X", [1, 16], "INT32")
        tensor.set_data_from_numpy(DATA)
        np.testing.assert_array_equal(client.infer("chain", [tensor]).as_numpy("Y"), DATA * 3)


def test_check_196_the_steps_of_an_ensemble_are_traced_with_it(server, trace_file):
    trace_file.unlink(missing_ok=True)
    change = {"trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "1"}
    assert server.call("POST", "/v2/models/chain/trace/setting", change)[0] == 200
    for _ in range(
        3
    ):  # the second is traced, and its steps whatever their model's own settings say
        infer_chain(server)
    server.wait_for(
        lambda: trace_file.exists() and trace_file.read_text().endswith("]"), "the trace file"
    )
    found = {trace["id"]: trace for trace in traces(trace_file)}
    (whole,) = [trace for trace in found.values() if trace["model_name"] == "chain"]
    steps = [trace for trace in found.values() if trace["model_name"] == "simple"]
    assert len(found) == 3
    assert [trace["parent_id"] for trace in steps] == [whole["id"]] * 2
    assert "parent_id" not in whole
    for step in steps:
        assert whole["moments"]["REQUEST_START"] <= step["moments"]["REQUEST_START"]
        assert step["moments"]["REQUEST_END"] <= whole["moments"]["REQUEST_END"]
        assert "HTTP_RECV_START" not in step["moments"]
    clear = {"trace_level": None, "trace_rate": None, "trace_count": None}
    assert server.call("POST", "/v2/models/chain/trace/setting", clear)[0] == 200


def test_check_196_without_a_file_nothing_can_be_traced(repository, tmp_path):
    with runtime(repository, tmp_path / "log") as server:
        status, body = server.call("POST", "/v2/trace/setting", {"trace_level": ["TIMESTAMPS"]})
        assert status == 400
        assert "trace file name is not given" in body["error"]
        assert server.call("GET", "/v2/trace/setting")[1]["trace_level"] == ["OFF"]


class Collector:
    """An OpenTelemetry collector on loopback that keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.resources: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/json"
                for group in body["resourceSpans"]:
                    collector.resources.append(attributes(group["resource"]))
                    for scope in group["scopeSpans"]:
                        collector.spans += scope["spans"]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"127.0.0.1:{self._server.server_address[1]}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


CONTEXT = """
def execute(self, requests):
    texts = [request.trace().get_context() for request in requests]
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([str(text)], np.object_))])
        for text in texts
    ]
"""
CONTEXT_CONFIG = """
input { name: "IN" data_type: TYPE_INT32 dims: [1] }
output { name: "OUT" data_type: TYPE_STRING dims: [1] }
"""


def test_a_python_model_is_told_the_context_of_its_span(tmp_path, collector):
    options = (
        "mode=opentelemetry",
        "level=TIMESTAMPS",
        "rate=1",
        f"opentelemetry,url={collector.url}",
        "opentelemetry,bsp_schedule_delay=50",
    )
    command = [f"--trace-config={option}" for option in options]
    (tmp_path / "r").mkdir()
    with runtime(tmp_path / "r", tmp_path / "log", *command) as server:
        world = PythonWorld(server, tmp_path / "r")
        world.serve("traced", CONTEXT, CONTEXT_CONFIG)
        context = json.loads(world.out("traced"))
        server.wait_for(lambda: len(collector.spans) == 3, "three spans")
        (span,) = [span for span in collector.spans if span["name"] == "traced"]
        assert context == {"traceparent": f"00-{span['traceId']}-{span['spanId']}-01"}
        off = {"trace_level": ["OFF"]}
        assert server.call("POST", "/v2/trace/setting", off)[0] == 200
        assert world.out("traced") == "None"


def attributes(holder):
    return {entry["key"]: entry["value"]["stringValue"] for entry in holder["attributes"]}


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


def test_check_194_opentelemetry_spans_reach_the_collector(repository, tmp_path, collector):
    options = (
        "mode=opentelemetry",
        "level=TIMESTAMPS",
        "rate=0",
        f"opentelemetry,url={collector.url}",
        "opentelemetry,resource=service.name=mine",
        "opentelemetry,resource=key=value",
        "opentelemetry,bsp_schedule_delay=50",
    )
    command = ("--load-model=*", *(f"--trace-config={option}" for option in options))
    with runtime(repository, tmp_path / "log", *command) as server:
        assert server.call("GET", "/v2/trace/setting") == (
            200,
            {
                "trace_level": ["TIMESTAMPS"],
                "trace_rate": "0",
                "trace_count": "-1",
                "trace_mode": "opentelemetry",
                "url": collector.url,
                "resource": ["service.name=mine", "key=value"],
                "bsp_max_queue_size": "2048",
                "bsp_schedule_delay": "50",
                "bsp_max_export_batch_size": "512",
            },
        )
        infer(server)  # rate 0: only what belongs to a trace already
        infer(server, headers={"traceparent": "nonsense"})
        trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        link = {"traceparent": f"00-{trace_id}-{span_id}-01"}
        infer(server, headers=link, request_id="mine")
        server.wait_for(lambda: len(collector.spans) == 3, "three spans")
        with server.http_client() as client:
            inputs = [httpclient.InferInput(n, [1, 16], "INT32") for n in ("INPUT0", "INPUT1")]
            for tensor in inputs:
                tensor.set_data_from_numpy(DATA)
            client.infer("simple", inputs, headers=link)
        server.wait_for(lambda: len(collector.spans) == 6, "three more")
        assert server.call("POST", "/v2/trace/setting", {"trace_rate": "1"})[0] == 200
        infer(server)
        infer_chain(server)
        assert server.terminate() == 0  # which sends the rest
    chain = collector.spans[9:]
    (whole,) = [span for span in chain if span["name"] == "chain"]
    steps = [span for span in chain if span["name"] == "simple"]
    assert [span["parentSpanId"] for span in steps] == [whole["spanId"]] * 2
    assert {span["traceId"] for span in chain} == {whole["traceId"]}
    assert sum(span["name"] == "InferRequest" for span in chain) == 1
    assert collector.resources[0] == {"service.name": "mine", "key": "value"}
    for first in (0, 3, 6):
        root, model, compute = collector.spans[first : first + 3]
        assert [span["name"] for span in (root, model, compute)] == [
            "InferRequest",
            "simple",
            "compute",
        ]
        assert model["parentSpanId"] == root["spanId"]
        assert compute["parentSpanId"] == model["spanId"]
        assert len({span["traceId"] for span in (root, model, compute)}) == 1
        assert attributes(model)["triton.model_version"] == "1"
        assert int(root["startTimeUnixNano"]) <= int(model["startTimeUnixNano"])
        assert int(model["startTimeUnixNano"]) <= int(compute["startTimeUnixNano"])
        assert int(compute["endTimeUnixNano"]) <= int(model["endTimeUnixNano"])
        names = {event["name"] for event in compute["events"]}
        assert names == {
            "COMPUTE_START",
            "COMPUTE_INPUT_END",
            "COMPUTE_OUTPUT_START",
            "COMPUTE_END",
        }
    assert [(span["traceId"], span["parentSpanId"]) for span in collector.spans[:6:3]] == [
        (trace_id, span_id)
    ] * 2
    assert attributes(collector.spans[1])["triton.request_id"] == "mine"
    assert "parentSpanId" not in collector.spans[6]
    assert collector.spans[6]["traceId"] != trace_id
