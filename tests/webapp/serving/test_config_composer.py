"""The config.pbtxt that a runtime is given, and the sentences about settings that cannot be."""

import pytest

from inference_runtime.spec.config_text import config_from_json, config_from_text
from webapp.serving.config_composer import Artifact, base_values, compose
from webapp.serving.config_values import ConfigProblem, ServingValues, read_values

BATCHABLE = Artifact(
    inputs=[{"name": "x", "datatype": "FP32", "shape": [-1, 784]}],
    outputs=[{"name": "y", "datatype": "BYTES", "shape": [-1]}],
)
FIXED = Artifact(
    inputs=[{"name": "x", "datatype": "FP32", "shape": [1, 784]}],
    outputs=[{"name": "y", "datatype": "FP32", "shape": [1, 10]}],
)


def with_config(text, artifact=BATCHABLE):
    return Artifact(text, artifact.inputs, artifact.outputs)


def composed(artifact=BATCHABLE, values=None, versions=(1,)):
    result = compose(model="m", artifact=artifact, versions=versions, values=values)
    config = config_from_text(result.text)
    assert config_from_json(result.json) == config
    return config


def problems(artifact, values):
    with pytest.raises(ConfigProblem) as caught:
        compose(model="m", artifact=artifact, versions=[1], values=values)
    return {problem.field: problem.detail for problem in caught.value.problems}


def test_without_edits_only_name_and_versions_are_added():
    config = composed(
        with_config('max_batch_size: 8 version_policy { all {} } parameters { key: "a" value {} }'),
        versions=[3, 1],
    )
    assert config.name == "m"
    assert list(config.version_policy.specific.versions) == [1, 3]
    assert config.max_batch_size == 8
    assert "a" in config.parameters
    assert not config.HasField("dynamic_batching")


def test_without_a_config_and_without_edits_the_runtime_completes_everything():
    config = composed()
    assert not config.input
    assert config.max_batch_size == 0


def test_edits_make_the_batcher():
    config = composed(
        values=ServingValues(
            instance_count=2,
            max_batch_size=16,
            preferred_batch_sizes=(4, 16),
            max_queue_delay_microseconds=500,
            max_queue_size=100,
            default_timeout_microseconds=2_000_000,
        )
    )
    assert [group.count for group in config.instance_group] == [2]
    assert config.max_batch_size == 16
    batching = config.dynamic_batching
    assert list(batching.preferred_batch_size) == [4, 16]
    assert batching.max_queue_delay_microseconds == 500
    assert batching.default_queue_policy.max_queue_size == 100
    assert batching.default_queue_policy.default_timeout_microseconds == 2_000_000


def test_a_batchable_model_gets_the_default_batch_size_written_down():
    result = compose(
        model="m", artifact=BATCHABLE, versions=[1], values=ServingValues(max_queue_size=5)
    )
    assert result.max_batch_size == 4
    assert config_from_text(result.text).max_batch_size == 4


def test_edits_keep_what_else_the_uploaded_config_says():
    config = composed(
        with_config(
            'backend: "onnxruntime" max_batch_size: 8 '
            "instance_group [ { kind: KIND_CPU count: 1 } ] "
            "dynamic_batching { preserve_ordering: true max_queue_delay_microseconds: 9 "
            "default_queue_policy { allow_timeout_override: true max_queue_size: 3 } }"
        ),
        ServingValues(instance_count=3),
    )
    assert config.backend == "onnxruntime"
    assert config.instance_group[0].count == 3
    assert config.instance_group[0].kind
    assert config.dynamic_batching.preserve_ordering
    assert config.dynamic_batching.max_queue_delay_microseconds == 0
    policy = config.dynamic_batching.default_queue_policy
    assert policy.allow_timeout_override
    assert policy.max_queue_size == 0


def test_batching_can_be_switched_off_although_the_runtime_would_complete_it():
    config = composed(values=ServingValues(max_batch_size=0))
    assert config.max_batch_size == 0
    assert list(config.input[0].dims) == [-1, 784]
    assert list(config.output[0].dims) == [-1]
    assert not config.HasField("dynamic_batching")


def test_the_batcher_can_be_switched_off_although_the_runtime_would_add_it():
    config = composed(values=ServingValues(max_batch_size=8, dynamic_batching=False))
    assert config.max_batch_size == 8
    assert not config.HasField("dynamic_batching")
    assert list(config.input[0].dims) == [784]
    assert list(config.output[0].dims) == [1]
    assert config.output[0].HasField("reshape")


def test_listed_dims_follow_the_batch_dimension():
    ports = (
        "input [ { name: 'x' data_type: TYPE_FP32 dims: [ 784 ] } ] "
        "output [ { name: 'y' data_type: TYPE_FP32 dims: [ 10 ] } ] "
    )
    off = composed(with_config(ports + "max_batch_size: 8"), ServingValues(max_batch_size=0))
    assert list(off.input[0].dims) == [-1, 784]
    full = ports.replace("[ 784 ]", "[ -1, 784 ]").replace("[ 10 ]", "[ -1, 10 ]")
    on = composed(with_config(full), ServingValues(max_batch_size=8))
    assert list(on.input[0].dims) == [784]
    assert list(on.output[0].dims) == [10]
    assert on.HasField("dynamic_batching")


def test_a_hand_written_config_without_batching_stays_so():
    ports = (
        "input [ { name: 'x' data_type: TYPE_FP32 dims: [ -1, 784 ] } ] "
        "output [ { name: 'y' data_type: TYPE_FP32 dims: [ -1, 10 ] } ]"
    )
    result = compose(
        model="m", artifact=with_config(ports), versions=[1], values=ServingValues(instance_count=1)
    )
    assert result.max_batch_size == 0
    assert not config_from_text(result.text).HasField("dynamic_batching")


def test_problems_name_the_field():
    assert (
        "no free first dimension"
        in problems(FIXED, ServingValues(max_batch_size=8))["max_batch_size"]
    )
    assert (
        "more than the largest batch, 8"
        in problems(BATCHABLE, ServingValues(max_batch_size=8, preferred_batch_sizes=(4, 9)))[
            "preferred_batch_sizes"
        ]
    )
    off = problems(BATCHABLE, ServingValues(dynamic_batching=False, max_queue_size=1))
    assert "switched off" in off["max_queue_size"]
    assert (
        "does not batch"
        in problems(FIXED, ServingValues(max_queue_delay_microseconds=1))[
            "max_queue_delay_microseconds"
        ]
    )
    assert (
        "own scheduler"
        in problems(with_config("sequence_batching {}"), ServingValues(max_queue_size=1))[
            "max_queue_size"
        ]
    )


def test_an_uploaded_config_that_cannot_be_read_is_a_problem_of_the_config():
    assert "can not be read" in problems(with_config("max_batch_size: what"), None)["config"]
    assert (
        "<= max batch size"
        in problems(
            with_config("max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }"), None
        )["config"]
    )


def test_a_fixed_first_dimension_in_the_config_cannot_become_a_batch():
    ports = (
        "input [ { name: 'x' data_type: TYPE_FP32 dims: [ 1, 784 ] } ] "
        "output [ { name: 'y' data_type: TYPE_FP32 dims: [ 1, 10 ] } ]"
    )
    assert (
        "fixed first dimension"
        in problems(with_config(ports), ServingValues(max_batch_size=8))["max_batch_size"]
    )


def test_first_values_are_what_the_uploaded_config_says():
    values = base_values(
        with_config(
            "max_batch_size: 8 instance_group [ { count: 2 } ] dynamic_batching { "
            "preferred_batch_size: [ 8, 4 ] max_queue_delay_microseconds: 100 "
            "default_queue_policy { max_queue_size: 7 default_timeout_microseconds: 9 } }"
        )
    )
    assert values == ServingValues(2, 8, True, (4, 8), 100, 7, 9)
    assert base_values(BATCHABLE) == ServingValues()
    assert not base_values(with_config("sequence_batching {}")).dynamic_batching


def test_editing_nothing_changes_nothing_the_runtime_would_do():
    artifact = with_config("max_batch_size: 8 instance_group [ { count: 2 } ]")
    values = base_values(artifact)
    config = composed(artifact, values)
    assert config.max_batch_size == 8
    assert config.instance_group[0].count == 2
    assert config.HasField("dynamic_batching")  # what the runtime adds by itself


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("instance_count", 0, "not within 1 to 64"),
        ("instance_count", "two", "a whole number"),
        ("instance_count", True, "a whole number"),
        ("max_batch_size", -1, "not within 0 to 4096"),
        ("dynamic_batching", 1, "true or false"),
        ("preferred_batch_sizes", "4", "a list"),
        ("preferred_batch_sizes", [0], "not within 1"),
        ("max_queue_size", None, "0 means none"),
        ("max_queue_delay_microseconds", 10**9, "not within 0 to 10000000"),
        ("colour", "red", "no such setting"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(field, value, sentence):
    with pytest.raises(ConfigProblem) as caught:
        read_values({field: value})
    (problem,) = caught.value.problems
    assert problem.field == field
    assert sentence in problem.detail


def test_values_go_through_json_and_back():
    values = ServingValues(2, 8, True, (4, 8), 100, 7, 9)
    assert read_values(values.to_json()) == values
    assert read_values({}) == ServingValues()
