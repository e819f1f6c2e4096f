"""Section 9.7 of the compliance checklist: what a config says, what is filled in, and what is refused."""

import hashlib
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from tritonclient.utils import InferenceServerException

from tests.conformance.clients import constant
from tests.conformance.config_cases import ALL_CASES, WHOLE
from tests.conformance.python_models import ONE_TO_ONE, write_python_model
from tests.conformance.runtime_process import runtime
from tests.onnx_models import add_constant, add_sub, failing, write_model, write_versions

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("configured")
    write_model(path, "simple", add_sub(), config="max_batch_size: 8")
    write_model(path, "broken", add_sub())
    (path / "broken/1/model.onnx").write_bytes(b"broken")
    return path


@pytest.fixture(scope="module")
def options():
    return ("--strict-readiness=false",)


@pytest.fixture(params=["http", "grpc"])
def client_kind(request):
    return request.param


def config_of(client, name) -> dict[str, Any]:
    config = client.get_model_config(name)
    if client.over_http:
        return config
    return json_format.MessageToDict(config.config, preserving_proto_field_name=True)


def loaded_config(client, repository, name, model, text: str | None = None) -> dict[str, Any]:
    write_model(repository, name, model, config=text)
    client.load_model(name)
    config = config_of(client, name)
    client.unload_model(name)
    return config


def test_check_111_a_model_alone_gets_the_reference_config(client, repository):
    config = loaded_config(client, repository, "c111", add_sub())
    assert int(config["max_batch_size"]) == 4
    assert config["dynamic_batching"]["preferred_batch_size"] == [4]
    assert [group["name"] for group in config["instance_group"]] == ["c111"]
    assert config["version_policy"] == {"latest": {"num_versions": 1}}
    assert (config["platform"], config["backend"]) == ("onnxruntime_onnx", "onnxruntime")
    assert config["default_model_filename"] == "model.onnx"
    for memory in ("input_pinned_memory", "output_pinned_memory"):
        assert config["optimization"][memory] == {"enable": True}
    assert [(entry["data_type"], entry["dims"]) for entry in config["input"]] in (
        [("TYPE_INT32", [16])] * 2,
        [("TYPE_INT32", ["16"])] * 2,
    )


def test_check_112_a_fixed_first_dimension_does_not_batch(client, repository):
    model = add_sub(batching=False)
    config = loaded_config(client, repository, "c112", model, "instance_group [{ kind: KIND_CPU }]")
    assert int(config.get("max_batch_size", 0)) == 0
    groups = [(group["name"], group["count"], group["kind"]) for group in config["instance_group"]]
    assert groups == [("c112_0", 2, "KIND_CPU")]
    assert "dynamic_batching" not in config


def test_check_113_listed_inputs_and_outputs_keep_a_model_from_batching(client, repository):
    ports = "".join(
        f'{kind} {{ name: "{name}" data_type: TYPE_INT32 dims: [-1, 16] }} '
        for kind, names in (("input", ("INPUT0", "INPUT1")), ("output", ("OUTPUT0", "OUTPUT1")))
        for name in names
    )
    config = loaded_config(client, repository, "c113", add_sub(), "max_batch_size: 0 " + ports)
    assert int(config.get("max_batch_size", 0)) == 0


@pytest.mark.slow
def test_check_114_the_default_batch_size_is_a_backend_option(tmp_path):
    write_model(tmp_path / "r", "m", add_sub())
    options = ("--backend-config=onnxruntime,default-max-batch-size=8", "--load-model=m")
    with (
        runtime(tmp_path / "r", tmp_path / "log", *options) as server,
        server.http_client() as client,
    ):
        assert client.get_model_config("m")["max_batch_size"] == 8


def test_check_115_a_batch_size_of_a_model_that_can_not_batch(client, repository):
    write_model(repository, "c115", add_sub(batching=False), config="max_batch_size: 2")
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("c115")
    assert (
        "autofill failed for model 'c115': model does not support batching while non-zero "
        "max_batch_size is specified"
    ) in str(caught.value)


@pytest.mark.slow
def test_check_116_without_completion_a_config_file_is_needed(tmp_path):
    write_model(tmp_path / "r", "bare", add_sub())
    options = ("--disable-auto-complete-config", "--exit-on-error=false")
    with (
        runtime(
            tmp_path / "r", tmp_path / "log", *options, "--strict-readiness=false", mode="none"
        ) as server,
        server.http_client() as client,
    ):
        with pytest.raises(InferenceServerException, match="'bare' is not found"):
            client.get_model_metadata("bare")
        assert "failed to open text file for read" in server.log
        assert str(tmp_path / "r/bare/config.pbtxt") in server.log


@pytest.mark.parametrize(("text", "message"), ALL_CASES, ids=range(len(ALL_CASES)))
def test_check_117_a_config_that_can_not_be_meant_is_refused_in_tritons_words(
    server, repository, request, text, message
):
    name = f"c117_{request.node.callspec.id}"
    write_model(repository, name, add_sub(), config=text.replace("{m}", name))
    wanted = message.replace("{m}", name)
    with server.grpc_client() as client, pytest.raises(InferenceServerException) as caught:
        client.load_model(name)
    assert wanted in str(caught.value)


def test_check_117_no_backend_can_be_told_from_the_files(server, repository):
    (repository / "c117_none/1").mkdir(parents=True)
    (repository / "c117_none/1/weights.bin").write_bytes(b"x")
    with server.grpc_client() as client, pytest.raises(InferenceServerException) as caught:
        client.load_model("c117_none")
    assert (
        "Invalid model name: Could not determine backend for model 'c117_none' with no backend in "
        "model configuration. Expected model name of the form 'model.<backend_name>'."
    ) in str(caught.value)


def test_check_117_what_fits_its_checksum_is_loaded(client, repository):
    write_model(repository, "c117_sum", add_constant(1), config="")
    digest = hashlib.md5((repository / "c117_sum/1/model.onnx").read_bytes()).hexdigest()
    (repository / "c117_sum/config.pbtxt").write_text(
        'model_repository_agents { agents { name: "checksum" parameters '
        f'{{ key: "MD5:1/model.onnx" value: "{digest}" }} }} }}'
    )
    client.load_model("c117_sum")
    assert constant(client, "c117_sum") == 1
    client.unload_model("c117_sum")


def test_check_117_what_a_config_says_of_pinned_memory_stays(client, repository):
    text = "optimization { output_pinned_memory { enable: false } }"
    memory = loaded_config(client, repository, "c117_pinned", add_sub(), text)["optimization"]
    assert memory["input_pinned_memory"] == {"enable": True}
    assert not memory["output_pinned_memory"].get("enable", False)


def test_check_117_a_metric_that_has_no_options_is_told_of(server, repository):
    text = (
        'model_metrics { metric_control { metric_identifier { family: "mine" } '
        "histogram_options { buckets: [1, 2] } } }"
    )
    write_model(repository, "c117_metric", add_sub(), config=WHOLE + text)
    with server.grpc_client() as client:
        client.load_model("c117_metric")
        client.unload_model("c117_metric")
    assert (
        "Metric family 'mine' in 'metric_identifier' is not a customizable metric in Triton core."
    ) in server.log


def test_check_119_directories_that_are_no_versions_are_ignored(server, client, repository):
    write_model(repository, "c119", add_constant(1))
    for name in ("003", "abc", "warmup", "initial_state", "configs"):
        (repository / "c119" / name).mkdir(exist_ok=True)
    client.load_model("c119")
    assert constant(client, "c119") == 1
    start = "ignore version directory "
    assert f"{start}'003' which contains leading zeros in its directory name" in server.log
    assert f"{start}'abc' which fails to convert to integral number" in server.log
    for name in ("warmup", "initial_state", "configs"):
        assert f"{start}'{name}'" not in server.log
    client.unload_model("c119")


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("all { }", [1, 2, 3]),
        ("latest { num_versions: 2 }", [2, 3]),
        ("specific { versions: [1, 3] }", [1, 3]),
        ("", [3]),
    ],
)
def test_check_120_the_policy_says_what_serves(client, repository, policy, served):
    write_versions(repository, 1, 2, 3, name="c120", policy=policy)
    client.load_model("c120")
    ready = [version for version in (1, 2, 3) if client.is_model_ready("c120", str(version))]
    assert ready == served
    assert [constant(client, "c120", str(version)) for version in served] == served
    client.unload_model("c120")


def test_check_121_the_highest_version_that_is_ready_answers(client, repository):
    for version in (2, 10):
        write_model(repository, "c121", add_constant(version), version=version)
    for policy, highest in (("all { }", 10), ("specific { versions: [2] }", 2)):
        (repository / "c121/config.pbtxt").write_text(f"version_policy {{ {policy} }}")
        client.load_model("c121")
        assert constant(client, "c121") == highest
    client.unload_model("c121")


@pytest.mark.slow
def test_check_122_samples_run_before_the_model_is_ready_and_one_that_fails_fails_the_load(
    tmp_path,
):
    sample = (
        'model_warmup {{ name: "{} sample" batch_size: 1 count: 2 inputs {{ key: "INDEX" '
        "value {{ data_type: TYPE_INT64 dims: [1] {} }} }} }} instance_group {{ count: 1 }}"
    )
    write_model(tmp_path / "r", "good", failing(), config=sample.format("zero", "zero_data: true"))
    bad = sample.format("bad", 'input_data_file: "data"')
    directory = write_model(tmp_path / "r", "bad", failing(), config=bad)
    (directory / "warmup").mkdir()
    (directory / "warmup/data").write_bytes(np.array([99], np.int64).tobytes())
    with (
        runtime(
            tmp_path / "r", tmp_path / "log", "--log-verbose=1", "--strict-readiness=false"
        ) as server,
        server.grpc_client() as client,
    ):
        client.load_model("good")
        for iteration in (0, 1):
            line = f"is running warmup sample 'zero sample' for iteration {iteration}"
            assert server.log.count(line) == 1
        with pytest.raises(
            InferenceServerException,
            match="failed to run warmup sample 'bad sample': onnx runtime error 2: ",
        ):
            client.load_model("bad")
        assert not client.is_model_ready("bad")


WARM = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.steps = 0

    def execute(self, requests):
        self.steps += 1
        if FAILS:
            error = pb_utils.TritonError("An Error Occurred")
            return [pb_utils.InferenceResponse(error=error) for _ in requests]
        tensor = pb_utils.Tensor("OUT", np.array([self.steps], np.int32))
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
"""
ZERO_SAMPLES = (
    'model_warmup { name: "zero sample" count: 2 batch_size: 1 inputs { key: "IN" '
    "value { data_type: TYPE_INT32 dims: [1] zero_data: true } } } instance_group { count: 1 }"
)


@pytest.mark.slow
def test_check_122_the_first_client_comes_after_the_samples(client, repository):
    for name, fails in (("c122_good", False), ("c122_bad", True)):
        source = WARM.replace("FAILS", str(fails))
        write_python_model(
            repository, f"{name}_{client.kind}", source=source, config=ONE_TO_ONE + ZERO_SAMPLES
        )
    client.load_model(f"c122_good_{client.kind}")
    answer = client.ask(f"c122_good_{client.kind}", {"IN": np.zeros(1, np.int32)})
    assert answer.as_numpy("OUT").tolist() == [3]
    with pytest.raises(InferenceServerException) as caught:
        client.load_model(f"c122_bad_{client.kind}")
    assert "failed to run warmup sample 'zero sample': An Error Occurred;" in str(caught.value)
    assert not client.is_model_ready(f"c122_bad_{client.kind}")


@pytest.mark.slow
def test_check_123_another_config_by_name(tmp_path):
    for name, sizes in (("both", (2, 5)), ("one", (3, None))):
        directory = write_model(
            tmp_path / "r", name, add_sub(), config=f"max_batch_size: {sizes[0]}"
        )
        if sizes[1] is not None:
            (directory / "configs").mkdir()
            (directory / "configs/custom.pbtxt").write_text(f"max_batch_size: {sizes[1]}")
    with (
        runtime(
            tmp_path / "r", tmp_path / "log", "--model-config-name=custom", mode="none"
        ) as server,
        server.http_client() as client,
    ):
        assert client.get_model_config("both")["max_batch_size"] == 5
        assert client.get_model_config("one")["max_batch_size"] == 3
