"""What an ensemble's config must not say."""

import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.config_text import config_from_text
from inference_runtime.spec.ensemble import read_ensemble
from inference_runtime.spec.ensemble_rules import check_ensemble

PORTS = """
name: "e" platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: [4] }
output { name: "OUT" data_type: TYPE_FP32 dims: [4] }
"""


def step(model="m", inputs=(("x", "IN"),), outputs=(("y", "OUT"),)) -> str:
    maps = "".join(
        f'{kind} {{ key: "{key}" value: "{value}" }}'
        for kind, pairs in (("input_map", inputs), ("output_map", outputs))
        for key, value in pairs
    )
    return f'step {{ model_name: "{model}" model_version: -1 {maps} }}'


def ensemble(*steps: str, more="") -> str:
    return f"{PORTS} {more} ensemble_scheduling {{ {' '.join(steps)} }}"


def check(text: str) -> None:
    check_ensemble(config_from_text(text))


def test_a_chain_is_good_in_any_order_of_its_steps():
    first = step("a", outputs=(("y", "middle"),))
    second = step("b", inputs=(("x", "middle"),))
    check(ensemble(first, second))
    check(ensemble(second, first))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PORTS, "ensemble scheduling must be set for ensemble e whose platform is ensemble"),
        (
            ensemble(step(), more='backend: "b"'),
            "Ensemble model 'e' must have platform type 'ensemble' and empty backend type",
        ),
        (
            ensemble(step(), more="instance_group { count: 1 }"),
            "instance group should not be specified for ensemble 'e'",
        ),
        (
            ensemble(step(), more="optimization { priority: PRIORITY_MAX }"),
            "optimization should not be specified for ensemble 'e'",
        ),
        (
            ensemble(step(), more='model_warmup { name: "w" }'),
            "model_warmup can not be specified for ensemble 'e'",
        ),
        (ensemble(), "must specify 'step' for ensemble 'e'"),
        (ensemble(step("")), "must specify 'model_name' in step 0 of ensemble 'e'"),
        (
            ensemble(step(), step(inputs=())),
            "must specify 'input_map' in step 1 of ensemble 'e'",
        ),
        (ensemble(step(outputs=())), "must specify 'output_map' in step 0 of ensemble 'e'"),
        (
            ensemble(step(), step()),
            "ensemble tensor 'OUT' can appear in an output map only once for ensemble 'e' step 1",
        ),
        (
            ensemble(step(inputs=(("x", "other"),))),
            "ensemble input 'IN' for ensemble e' is not used",
        ),
        (
            ensemble(step(outputs=(("y", "other"),))),
            "ensemble output 'OUT' for ensemble e' is not used",
        ),
        (
            ensemble(step(outputs=(("y", "a"),)), step(inputs=(("x", "b"), ("z", "a")))),
            "output 'OUT' for ensemble 'e' is not written: at least one of its depending tensors, "
            "'b', is not connected",
        ),
        (
            ensemble(step(outputs=(("y", "OUT"), ("z", "spare")))),
            "ensemble tensor 'spare' is unused in ensemble 'e'",
        ),
    ],
)
def test_what_is_wrong_is_told_in_tritons_words(text, message):
    with pytest.raises(InvalidArgument) as fault:
        check(text)
    assert fault.value.text == message


def test_only_what_an_output_depends_on_is_needed():
    text = ensemble(
        step("a", outputs=(("y", "m"),)),
        step("b", inputs=(("x", "m"),)),
        step("c", outputs=(("y", "OTHER"),)),
    )
    scheduling = read_ensemble(config_from_text(text))
    assert scheduling is not None
    assert scheduling.needed(["OUT"]) == {0, 1}
    assert scheduling.needed(["OTHER"]) == {2}
    assert scheduling.needed([]) == frozenset()
    assert scheduling.model_names == ("a", "b", "c")
