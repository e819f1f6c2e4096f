import json
import re
import shlex
import subprocess
from typing import Any

from webapp.dashboard.snippets import sample_inputs, snippets, trial_fields
from webapp.telemetry.first_call import curl_line

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


def sent_by(curl: str) -> list[dict[str, Any]]:
    """The inputs that a curl line sends, the shell and Python asked."""
    program, _, _ = curl.partition(" | curl ")
    if program != curl:
        body = subprocess.run(["sh", "-c", program], capture_output=True, check=True).stdout
    else:
        body = shlex.split(curl)[-1].encode()
    return json.loads(body)["inputs"]


def test_the_call_for_a_large_input_runs_as_it_stands() -> None:
    inputs = sample_inputs(
        [
            {"name": "x", "datatype": "FP32", "shape": [-1, 3, 32, 32]},
            {"name": "words", "datatype": "BYTES", "shape": [-1, 100]},
        ]
    )
    curl, python, script = snippets(model="m", version=1, http="h:1", grpc="g:2", inputs=inputs)
    for entry, count in zip(sent_by(curl.text), (3072, 100), strict=True):
        assert len(entry["data"]) == count
    assert "[0.5] * 3072" in python.text
    assert 'Array(100).fill("text")' in script.text
    compile(python.text, "snippet", "exec")


def test_names_of_inputs_are_data_and_nothing_else() -> None:
    name = "it's $(touch here) `true` \"é"
    small = [{"name": name, "datatype": "BOOL", "shape": [1]}]
    large = [{"name": name, "datatype": "FP32", "shape": [1, 1000]}]
    for signature in (small, large):
        curl, python, _ = snippets(
            model="m", version=1, http="h:1", grpc="g:2", inputs=sample_inputs(signature)
        )
        assert [entry["name"] for entry in sent_by(curl.text)] == [name]
        assert [entry["name"] for entry in sent_by(curl_line("http://h:1", signature))] == [name]
        compile(python.text, "snippet", "exec")
        assert json.dumps(name, ensure_ascii=False) in python.text


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
