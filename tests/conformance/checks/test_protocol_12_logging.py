"""Section 9.12 of the compliance checklist: the logging extension."""

import re
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from inference_runtime import pb
from tests.conformance.runtime_process import runtime
from tests.onnx_models import add_sub, write_model

pytestmark = pytest.mark.conformance
DEFAULTS = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}
FORMS = {
    "default": re.compile(r'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [\w.]+:\d+\] ".*"'),
    "ISO8601": re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [IWE] \d+ [\w.]+:\d+\] ".*"'),
}
FORGED = "a\nE0101 00:00:00.000000 1 forged.cc:1] \x1b[2J\r"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("repository")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    return path


@pytest.fixture(autouse=True)
def restored(server):
    yield
    changes = {key: value for key, value in DEFAULTS.items() if key != "log_file"}
    assert server.call("POST", "/v2/logging", changes) == (200, DEFAULTS)


def status_of(error: Any) -> str:
    return error.code().name


def settings_of(client, found):
    if client.over_http:
        return found
    return {
        key: getattr(setting, setting.WhichOneof("parameter_choice"))
        for key, setting in found.settings.items()
    }


def test_check_197_log_settings_round_trip(client):
    assert settings_of(client, client.get_log_settings()) == DEFAULTS
    changes = {
        "log_info": False,
        "log_warning": False,
        "log_error": False,
        "log_verbose_level": 1,
        "log_format": "ISO8601",
    }
    expected = dict(DEFAULTS)
    for key, value in changes.items():
        expected[key] = value
        assert settings_of(client, client.update_log_settings({key: value})) == expected
    assert settings_of(client, client.get_log_settings()) == expected


def test_check_197_the_order_of_settings_is_the_protocols(server):
    assert list(server.call("GET", "/v2/logging")[1]) == list(DEFAULTS)


def test_check_197_log_file_can_not_be_updated(client, server):
    with pytest.raises(InferenceServerException) as caught:
        client.update_log_settings({"log_file": "/tmp/x"})
    assert "log file location can not be updated through network protocol" in str(caught.value)
    assert caught.value.status() in ("501", "StatusCode.UNIMPLEMENTED")
    assert server.call("GET", "/v2/logging")[1] == DEFAULTS


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"log_info": 1}, "attempt to access JSON non-boolean as boolean"),
        ({"log_info": "false"}, "attempt to access JSON non-boolean as boolean"),
        ({"log_verbose_level": -1}, "non-unsigned-integer as unsigned-integer"),
        ({"log_verbose_level": "1"}, "non-unsigned-integer as unsigned-integer"),
        ({"log_verbose_level": 1.0}, "non-unsigned-integer as unsigned-integer"),
        ({"log_format": 3}, "attempt to access JSON non-string as string"),
        ({"log_format": "nice"}, "invalid argument for --log_format, got: nice"),
    ],
)
def test_check_197_wrong_values_over_http(server, change, text):
    status, body = server.call("POST", "/v2/logging", change)
    assert status == 400  # Triton: 500 and 503; decision 3
    assert text in body["error"]
    assert server.call("GET", "/v2/logging")[1] == DEFAULTS


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"log_info": {"uint32_param": 1}}, "expect boolean for 'log_info'"),
        ({"log_info": {"string_param": "false"}}, "expect boolean for 'log_info'"),
        ({"log_verbose_level": {"string_param": "1"}}, "expect int32 for 'log_verbose_level'"),
        ({"log_format": {"bool_param": True}}, "expect string for 'log_format'"),
        ({"log_format": {"string_param": "x"}}, "invalid argument for log_format, got: x"),
    ],
)
def test_check_197_wrong_values_over_grpc(server, change, text):
    request = pb.LogSettingsRequest()
    for key, choice in change.items():
        for kind, value in choice.items():
            setattr(request.settings[key], kind, value)
    with server.grpc_client() as client, pytest.raises(grpc.RpcError, match=text) as caught:
        client._client_stub.LogSettings(request)
    assert status_of(caught.value) == "INVALID_ARGUMENT"
    assert server.call("GET", "/v2/logging")[1] == DEFAULTS


def test_check_197_nulls_and_unknown_keys_are_ignored_and_faults_keep_what_came_before(server):
    body = {"log_file": None, "nonsense": 7, "log_info": None}
    assert server.call("POST", "/v2/logging", body) == (200, DEFAULTS)
    assert server.call("POST", "/v2/logging", {"log_warning": False, "log_info": 1})[0] == 400
    assert server.call("GET", "/v2/logging")[1] == {**DEFAULTS, "log_warning": False}


@pytest.mark.parametrize("form", FORMS)
def test_check_198_lines_have_the_asked_form_and_can_not_be_forged(tmp_path, repository, form):
    options = ("--load-model=*", f"--log-format={form}", "--log-verbose=1")
    with runtime(repository, tmp_path / "log", *options) as server:
        server.call("POST", f"/v2/models/{'%0AE0101'}/infer", {"id": FORGED, "inputs": []})
        with server.grpc_client() as client:
            for call in (client.load_model, client.get_model_metadata):
                with pytest.raises(InferenceServerException):
                    call(FORGED)
            tensor = grpcclient.InferInput("INPUT0", [1, 4], "INT32")
            with pytest.raises(InferenceServerException):
                client.infer(FORGED, [tensor], request_id=FORGED)
        lines = server.log.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if not FORMS[form].fullmatch(line)] == []


def test_check_199_a_request_like_the_one_before_it_is_logged_as_well(server):
    line = "HTTP request: POST /v2/models/simple/infer"
    tensor = httpclient.InferInput("INPUT0", [1, 16], "INT32")
    other = httpclient.InferInput("INPUT1", [1, 16], "INT32")
    for one in (tensor, other):
        one.set_data_from_numpy(np.ones((1, 16), np.int32))
    with server.http_client() as client:

        def lines_of_three() -> int:
            before = server.log.count(line)
            for _ in range(3):
                client.infer("simple", [tensor, other])
            return server.log.count(line) - before

        assert lines_of_three() == 0
        client.update_log_settings({"log_verbose_level": 1})
        assert lines_of_three() == 3
        client.update_log_settings({"log_verbose_level": 0})
        assert lines_of_three() == 0


def test_check_199_request_paths_are_logged_while_verbose(server):
    path = "/v2/models/simple/ready"
    line = f"HTTP request: GET {path}"

    def ask() -> int:
        assert server.call("GET", path)[0] == 200
        return server.log.count(line)

    before = ask()
    with server.http_client() as client:
        client.update_log_settings({"log_verbose_level": 1})
        # A connection that is open, and a path that was asked before, are no exceptions.
        assert client.is_model_ready("simple")
        assert ask() == before + 2
        client.update_log_settings({"log_verbose_level": 0})
        assert client.is_model_ready("simple")
        assert ask() == before + 2
