"""config.pbtxt and JSON to protobuf and back."""

import pytest

from inference_runtime import pb
from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_text import (
    config_from_json,
    config_from_text,
    config_to_json,
    config_to_text,
)

TEXT = """
name: "m" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1, 16 ] }
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 100
  priority_queue_policy { key: 1 value { timeout_action: DELAY } } }
parameters { key: "a" value { string_value: "b" } }
version_policy { specific { versions: [ 1, 3 ] } }
"""


def test_text_and_json_say_the_same():
    proto = config_from_text(TEXT)
    assert config_from_text(config_to_text(proto)) == proto
    assert config_from_json(config_to_json(proto)) == proto


def test_json_takes_both_spellings_and_enums_in_any_case():
    proto = config_from_json(
        '{"maxBatchSize": 2, "input": [{"name": "x", "data_type": "type_int32", "dims": [1]}],'
        ' "instance_group": [{"kind": "kind_cpu"}],'
        ' "dynamicBatching": {"priorityQueuePolicy": {"1": {"timeoutAction": "delay"}}}}'
    )
    assert proto.max_batch_size == 2
    assert proto.input[0].data_type == pb.DataType.Value("TYPE_INT32")
    assert proto.instance_group[0].kind == pb.ModelInstanceGroup.KIND_CPU
    assert proto.dynamic_batching.priority_queue_policy[1].timeout_action == 1


def test_unquoted_keys_are_taken():
    assert config_from_json('{max_batch_size: 3, "platform": "a:b"}').max_batch_size == 3


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"no_such_field": 1}', '{"max_batch_size": "many"}', '{"input": [{"x": 1}]}'],
)
def test_other_json_is_refused(text):
    with pytest.raises(InvalidArgument, match="Invalid config override"):
        config_from_json(text)


def test_deep_nesting_is_refused():
    with pytest.raises(InvalidArgument):
        config_from_json('{"input":' + "[" * 100_000 + "]" * 100_000 + "}")


def test_a_wrong_text_names_the_place():
    with pytest.raises(InvalidArgument, match=r"2:\d+"):
        config_from_text('name: "m"\nmax_batchsize: 2\n')


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('{"input":[{"name":"x","data_type":99,"dims":[1]}]}', "'data_type' has no value 99"),
        ('{"instance_group":[{"kind":77}]}', "'kind' has no value 77"),
        (
            '{"dynamic_batching":{"priority_queue_policy":{"1":{"timeout_action":5}}}}',
            "'timeout_action' has no value 5",
        ),
    ],
)
def test_a_number_that_no_enum_has_is_refused(body, named):
    with pytest.raises(InvalidArgument, match=f"Invalid config override: {named}"):
        config_from_json(body)
    assert config_from_json('{"input":[{"data_type":11}]}').input[0].data_type == 11


def test_the_same_in_text():
    with pytest.raises(InvalidArgument, match=r"config\.pbtxt can not be read: .*99"):
        config_from_text('input { name: "x" data_type: 99 }')
