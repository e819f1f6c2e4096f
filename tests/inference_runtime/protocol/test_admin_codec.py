import json
from dataclasses import dataclass

import pytest
from google.protobuf import json_format

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol import admin_codec
from inference_runtime.spec.message_json import message_json


@dataclass
class Entry:
    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


def config():
    proto = pb.ModelConfig(name="m", max_batch_size=8, backend="onnxruntime")
    proto.input.add(name="A", data_type="TYPE_FP32", dims=[-1, 16])
    proto.version_policy.specific.versions.extend([1, 2])
    proto.dynamic_batching.max_queue_delay_microseconds = 100
    proto.dynamic_batching.priority_queue_policy[2].max_queue_size = 4
    proto.parameters["p"].string_value = "v"
    proto.optimization.cuda.graph_spec.add().input["A"].dim.append(16)
    return proto


def test_a_config_is_written_with_numbers_names_and_defaults():
    body = json.loads(message_json(config()))
    assert body["input"][0]["dims"] == [-1, 16]
    assert body["input"][0]["data_type"] == "TYPE_FP32"
    assert body["input"][0]["optional"] is False
    assert body["version_policy"] == {"specific": {"versions": [1, 2]}}
    assert body["dynamic_batching"]["max_queue_delay_microseconds"] == 100
    assert body["dynamic_batching"]["priority_queue_policy"]["2"]["max_queue_size"] == 4
    assert body["parameters"] == {"p": {"string_value": "v"}}
    assert body["model_warmup"] == []
    assert "sequence_batching" not in body
    assert body["optimization"]["cuda"]["graph_spec"][0]["input"]["A"]["dim"] == ["16"]


def test_a_config_comes_back_as_it_was():
    body = message_json(config()).decode()
    assert json_format.Parse(body, pb.ModelConfig()) == config()


def test_statistics_are_numbers():
    proto = pb.ModelStatisticsResponse()
    proto.model_stats.add(name="m", version="1", inference_count=2**60)
    (model,) = json.loads(message_json(proto))["model_stats"]
    assert model["inference_count"] == 2**60
    assert (model["response_stats"], model["batch_stats"]) == ({}, [])


def test_index_entries_show_only_what_they_have():
    entries = [Entry("a"), Entry("b", "1", "READY"), Entry("c", "2", "UNAVAILABLE", "unloaded")]
    assert json.loads(admin_codec.index_json(entries)) == [
        {"name": "a"},
        {"name": "b", "version": "1", "state": "READY"},
        {"name": "c", "version": "2", "state": "UNAVAILABLE", "reason": "unloaded"},
    ]
    assert [model.name for model in admin_codec.index_message(entries).models] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("body", "ready"), [(b"", False), (b"{}", False), (b'{"ready":true}', True)]
)
def test_the_index_may_be_asked_for_what_is_ready(body, ready):
    assert admin_codec.read_ready_only(body) is ready


@pytest.mark.parametrize("value", [b"1", b'"true"', b"[" * 250_000 + b"]" * 250_000])
def test_ready_must_be_a_boolean(value):
    with pytest.raises(InvalidArgument, match="Invalid value for 'ready': expected a boolean"):
        admin_codec.read_ready_only(b'{"ready":' + value + b"}")


def test_load_parameters_of_both_protocols_mean_the_same():
    body = b'{"parameters":{"config":"{}","file:1/model.onnx":"QUI="}}'
    grpc = {
        "config": pb.ModelRepositoryParameter(string_param="{}"),
        "file:1/model.onnx": pb.ModelRepositoryParameter(bytes_param=b"AB"),
    }
    expected = {"config": "{}", "file:1/model.onnx": b"AB"}
    assert admin_codec.read_load_parameters(body) == expected
    assert admin_codec.load_parameters(grpc) == expected


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"parameters":{"config":1}}', "attempt to access JSON non-string as string"),
        (b'{"parameters":{"other":"x"}}', "unexpected error on creating Triton parameter"),
        (b'{"parameters":{"file:a":"?"}}', "failed to decode load parameter 'file:a' as base64"),
        (b"[]", "attempt to access JSON non-object as object"),
    ],
)
def test_wrong_load_parameters_are_refused(body, text):
    with pytest.raises(InvalidArgument, match=text):
        admin_codec.read_load_parameters(body)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (
            "config",
            {"bool_param": True},
            "invalid value type for load parameter 'config', expected string_param.",
        ),
        (
            "file:x",
            {"string_param": "y"},
            "invalid value type for load parameter 'file:x', expected bytes_param.",
        ),
        ("other", {"string_param": "y"}, "unrecognized load parameter 'other'."),
    ],
)
def test_wrong_load_parameters_over_grpc_are_refused(key, value, text):
    with pytest.raises(InvalidArgument) as caught:
        admin_codec.load_parameters({key: pb.ModelRepositoryParameter(**value)})
    assert caught.value.text == text


def test_unload_dependents_is_a_flag():
    assert admin_codec.read_unload_dependents(b"") is False
    assert admin_codec.read_unload_dependents(b'{"parameters":{"unload_dependents":true}}') is True
    flag = pb.ModelRepositoryParameter(bool_param=True)
    assert admin_codec.unload_dependents({"unload_dependents": flag}) is True
    assert admin_codec.unload_dependents({}) is False
    with pytest.raises(InvalidArgument, match="expected bool_param"):
        admin_codec.unload_dependents(
            {"unload_dependents": pb.ModelRepositoryParameter(string_param="")}
        )
