"""Files that come with a load request go into a private directory, or nowhere."""

import base64

import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.repository.overrides import read_load_parameters, write_override


def parameters(*names, content=b"x"):
    return read_load_parameters({"config": "{}", **{f"file:{name}": content for name in names}})


def test_files_are_written_below_one_fresh_directory(tmp_path):
    override = write_override(parameters("1/model.onnx", "labels.txt"), tmp_path / "overrides")
    assert override is not None
    assert override.directory is not None
    assert override.directory.parent == tmp_path / "overrides"
    assert (override.directory / "1/model.onnx").read_bytes() == b"x"
    assert override.config_json == "{}"


def test_http_sends_base64_and_grpc_bytes(tmp_path):
    given = {"config": "{}", "file:a": base64.b64encode(b"\0\xff").decode(), "file:b": b"\0\xff"}
    files = read_load_parameters(given).files
    assert files is not None
    assert files["a"] == files["b"] == b"\0\xff"


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "1/../../x", "", "a//b", "x" * 256], ids=lambda name: name[:9]
)
def test_paths_that_leave_the_model_are_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(InvalidArgument, match="must stay within model directory"):
        write_override(parameters("1/model.onnx", name), tmp_path / "overrides")
    assert not (tmp_path / "overrides").exists()


def test_files_that_can_not_both_exist_leave_nothing_behind(tmp_path):
    with pytest.raises(InvalidArgument, match="can not be written"):
        write_override(parameters("a", "a/b"), tmp_path / "overrides")
    assert list((tmp_path / "overrides").iterdir()) == []


def test_files_need_a_config(tmp_path):
    with pytest.raises(InvalidArgument, match="'config' must be specified"):
        write_override(read_load_parameters({"file:1/m": b""}), tmp_path)


def test_parameters_are_known_and_typed():
    assert read_load_parameters({}).empty
    for given in ({"unknown": "x"}, {"config": b"{}"}, {"file:a": 3}, {"file:a": "no base64!"}):
        with pytest.raises(InvalidArgument):
            read_load_parameters(given)
