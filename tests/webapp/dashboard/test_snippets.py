import json
import re

from webapp.dashboard.snippets import sample_inputs, snippets, trial_fields

SIGNATURE = [
    {"name": "ids", "datatype": "INT64", "shape": [-1, -1]},
    {"name": "flag", "datatype": "BOOL", "shape": [-1, 1]},
    {"name": "words", "datatype": "BYTES", "shape": [-1, 1]},
]


def test_sample_inputs_fit_their_shapes() -> None:
    ids, flag, words = sample_inputs(SIGNATURE)
    assert (ids["shape"], ids["data"]) == ([1, 4], [1, 1, 1, 1])
    assert flag["data"] == [True]
    assert words["data"] == ["text"]


def test_a_large_input_is_left_for_the_person_to_fill() -> None:
    (picture,) = sample_inputs([{"name": "x", "datatype": "FP32", "shape": [-1, 3, 224, 224]}])
    assert picture["data"] == []


def test_each_snippet_names_the_model_its_version_and_address() -> None:
    curl, python, script = snippets(
        model="m", version=3, http="h:1", grpc="g:2", inputs=sample_inputs(SIGNATURE)
    )
    assert "http://h:1/v2/models/m/versions/3/infer" in curl.text
    assert json.loads(re.search(r"-d '(.*)'", curl.text).group(1))["inputs"]
    assert 'InferenceServerClient("g:2")' in python.text
    assert 'model_version="3"' in python.text
    compile(python.text, "snippet", "exec")
    assert "fetch('http://h:1/v2/models/m/versions/3/infer'" in script.text


def test_without_a_version_the_traffic_table_chooses() -> None:
    curl, python, _ = snippets(model="m", version=None, http="h:1", grpc="g:2", inputs=[])
    assert "versions" not in curl.text
    assert "model_version" not in python.text


def test_small_inputs_get_a_box_to_type_in_and_large_ones_do_not() -> None:
    fields = trial_fields(sample_inputs(SIGNATURE))
    assert [(field.name, field.value) for field in fields] == [
        ("ids", "1, 1, 1, 1"), ("flag", "true"), ("words", "text"),
    ]  # fmt: skip
    assert [field.is_text for field in fields] == [False, False, True]
    picture = [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 224, 224]}]
    assert trial_fields(sample_inputs(picture)) == []
