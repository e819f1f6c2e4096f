"""Section 9.11 of the compliance checklist: loads, unloads, overrides, the index, modes and readiness."""

import os
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import constant
from tests.conformance.runtime_process import runtime
from tests.conformance.traffic import traffic
from tests.onnx_models import add_constant, write_model, write_versions

pytestmark = pytest.mark.conformance
ALL = "version_policy { all { } }"
NOT_POLLED = "failed to load '{}', failed to poll from model repository"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("managed")
    (path / "r").mkdir()
    with runtime(path / "r", path / "log") as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client_kind(request):
    return request.param


@pytest.fixture
def model(request, server, client):
    """A model of its own for each test and client, with versions 1 and 2 of which 1 is served."""
    name = f"{request.node.originalname}_{client.kind}"
    repository = server.log_path.parent / "r"
    write_versions(repository, 1, 2, name=name, policy="specific { versions: [1] }")
    yield repository / name
    client.unload_model(name)


def states(client, name: str) -> dict[str, tuple[str, str]]:
    index = client.names(client.get_model_repository_index())
    entries = index if client.over_http else index.get("models", [])
    return {
        entry.get("version", ""): (entry.get("state", ""), entry.get("reason", ""))
        for entry in entries
        if entry["name"] == name
    }


def refused(call, *args, **more) -> InferenceServerException:
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **more)
    return caught.value


def test_check_164_load_and_unload(server, client, model):
    assert states(client, model.name) == {"": ("", "")}
    client.load_model(model.name)
    assert states(client, model.name) == {"1": ("READY", "")}
    assert constant(client, model.name) == 1
    client.unload_model(model.name)
    server.wait_for(
        lambda: states(client, model.name) == {"1": ("UNAVAILABLE", "unloaded")}, "the unload"
    )
    assert client.is_server_ready()
    assert not client.is_model_ready(model.name)


def test_check_165_unknown_models(client):
    error = refused(client.load_model, "unknown_model")
    assert NOT_POLLED.format("unknown_model") in str(error)
    assert error.status() in ("500", "StatusCode.INTERNAL")
    client.unload_model("unknown_model")


def test_check_166_a_failed_load_fails_again(client, model):
    client.load_model(model.name)
    (model / "2/model.onnx").write_bytes(b"broken")
    (model / "config.pbtxt").write_text(ALL)
    for _ in range(2):
        text = str(refused(client.load_model, model.name))
        assert f"load failed for model '{model.name}'" in text
        assert "version 2 is at UNAVAILABLE state: Internal: " in text
    write_model(model.parent, model.name, add_constant(2), version=2)
    client.load_model(model.name)
    assert constant(client, model.name) == 2


def test_check_168_a_reload_that_fails_leaves_the_old_version_serving(client, model):
    client.load_model(model.name)
    (model / "1/model.onnx").write_bytes(b"broken")
    refused(client.load_model, model.name)
    assert client.is_model_ready(model.name, "1")
    assert constant(client, model.name) == 1


def test_check_169_a_config_stays_until_a_file_changes(client, model):
    second = '{"version_policy": {"specific": {"versions": [2]}}}'
    client.load_model(model.name, config=second)
    assert not client.is_model_ready(model.name, "1")
    assert client.is_model_ready(model.name, "2")
    client.load_model(model.name)
    assert constant(client, model.name) == 2
    os.utime(model / "config.pbtxt")
    client.load_model(model.name)
    assert constant(client, model.name) == 1
    client.load_model(model.name, config=second)
    client.unload_model(model.name)
    client.load_model(model.name)
    assert constant(client, model.name) == 1


def test_a_config_comes_back_as_it_went_in(client, model):
    client.load_model(model.name)
    import orjson
    from google.protobuf import json_format

    config = client.get_model_config(model.name)
    if client.over_http:
        text = orjson.dumps(config).decode()
    else:
        text = json_format.MessageToJson(config.config, preserving_proto_field_name=True)
    client.load_model(model.name, config=text)
    again = client.get_model_config(model.name)
    assert client.names(again) == client.names(config)


def test_check_170_files_serve_in_place_of_the_directory(client, model):
    files = {"file:1/model.onnx": add_constant(9).SerializeToString()}
    config = '{"backend": "onnxruntime"}'
    client.load_model(model.name)
    error = refused(client.load_model, model.name, files=files)
    assert NOT_POLLED.format(model.name) in str(error)
    assert constant(client, model.name) == 1
    made = f"{model.name}_made"
    for name in (model.name, made):
        client.load_model(name, config=config, files=files)
        assert constant(client, name) == 9
    client.unload_model(made)
    client.load_model(model.name)
    assert constant(client, model.name) == 1


@pytest.mark.parametrize("path", ["../x", "/etc/x", "1/../../x", "y" * 256], ids=lambda p: p[:6])
def test_check_171_paths_that_leave_the_model_are_refused(client, model, path):
    files = {f"file:{path}": b"x"}
    error = refused(client.load_model, model.name, config="{}", files=files)
    assert NOT_POLLED.format(model.name) in str(error)
    assert not (model.parent / "x").exists()
    assert client.is_server_live()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("  ", "Model name cannot be empty"),
        ("../etc", "model name must not contain path traversal characters"),
        ("a/../b", "model name must not contain path traversal characters"),
        ("...", "failed to load '...'"),
        ("model..1", "failed to load 'model..1'"),
    ],
)
def test_check_172_names_are_not_paths(server, client, name, text):
    if client.over_http:
        path = f"/v2/repository/models/{quote(name, safe='')}/load"
        status, body = server.call("POST", path, {})
        assert status in (400, 500)
        assert text in body["error"]
    else:
        assert text in str(refused(client.load_model, name))


def test_check_167_a_new_version_takes_over_and_no_request_fails(server, client, model):
    client.load_model(model.name)
    unready = 0
    with traffic(server, model.name) as running:
        (model / "config.pbtxt").write_text("version_policy { latest { num_versions: 1 } }")
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(server.call, "POST", f"/v2/repository/models/{model.name}/load")
            while not loading.done():
                unready += not client.is_model_ready(model.name)
        assert loading.result()[0] == 200
        assert client.is_model_ready(model.name, "2")
        assert not client.is_model_ready(model.name, "1")
        done = len(running.answers)
        running.wait_more(20)
    assert unready == 0
    assert running.failures == []
    assert running.versions() == {"1", "2"}
    # Those in flight at the switch may still be the old version's: one for each of the four clients.
    assert {version for version, _ in running.answers[done + 4 :]} == {"2"}


def test_check_175_only_what_changed_is_loaded_anew(client, model):
    (model / "config.pbtxt").write_text(ALL)
    client.load_model(model.name)
    for _ in range(3):
        constant(client, model.name, "1")
    os.utime(model / "2/model.onnx")
    client.load_model(model.name)
    # Statistics belong to a loaded version: those of version 1 are still there, so it stayed.
    assert counted(client, model.name) == 3
    (model / "labels.txt").write_text("shared")
    client.load_model(model.name)
    assert counted(client, model.name) == 0


def test_check_175_another_policy_loads_and_unloads_the_difference(client, model):
    client.load_model(model.name)
    for _ in range(3):
        constant(client, model.name, "1")
    (model / "config.pbtxt").write_text(ALL)
    client.load_model(model.name)
    assert constant(client, model.name) == 2
    assert counted(client, model.name) == 3
    (model / "config.pbtxt").write_text("version_policy { specific { versions: [1] } }")
    client.load_model(model.name)
    assert not client.is_model_ready(model.name, "2")
    assert counted(client, model.name) == 3


def test_check_176_another_count_of_instances_keeps_those_there_are(server, client, model):
    policy = "version_policy { specific { versions: [1] } } "

    def instances() -> int:
        models = server.call("GET", "/v2/switchyard/statistics")[1]["models"]
        return sum(entry["instances"] for entry in models if entry["model"] == model.name)

    client.load_model(model.name)
    with traffic(server, model.name) as running:
        for count in (3, 1, 2):
            (model / "config.pbtxt").write_text(
                f"{policy} instance_group {{ count: {count} kind: KIND_CPU }}"
            )
            client.load_model(model.name)
            assert instances() == count
            running.wait_more(20)
    assert running.failures == []
    # The counters are those of the first load: nothing was loaded anew.
    assert counted(client, model.name) == len(running.answers)


def counted(client, name: str) -> int:
    statistics = client.names(client.get_inference_statistics(name, "1"))
    return int(statistics["model_stats"][0].get("inference_count", 0))
