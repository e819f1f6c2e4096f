"""What a repository holds, and when it counts as changed."""

import os

import pytest

from inference_runtime.errors import InvalidArgument
from inference_runtime.repository.overrides import LoadOverride
from inference_runtime.repository.repository import DUPLICATE, ModelRepository
from inference_runtime.repository.snapshot import take_snapshot
from inference_runtime.repository.store import DirectoryStore
from tests.onnx_models import add_sub, write_model


def test_models_are_directories_that_do_not_hide(tmp_path):
    for name in ("b", "a", ".staging"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    assert ModelRepository([DirectoryStore(tmp_path)]).names() == {"a": False, "b": False}


def test_a_directory_whose_name_is_no_text_is_no_model(tmp_path):
    write_model(tmp_path, "a", add_sub())
    (tmp_path / "b\udcff").mkdir()  # the byte 0xff, as Python says it
    repository = ModelRepository([DirectoryStore(tmp_path)])
    assert repository.names() == {"a": False}
    assert list(repository.look().models) == ["a"]
    with pytest.raises(InvalidArgument, match="can not be the name of a model directory"):
        repository.poll("b\udcff")


def test_a_name_in_two_repositories_is_a_duplicate_and_can_not_be_polled(tmp_path):
    for root in ("one", "two"):
        write_model(tmp_path / root, "m", add_sub())
    repository = ModelRepository(
        [DirectoryStore(tmp_path / "one"), DirectoryStore(tmp_path / "two")]
    )
    assert repository.names() == {"m": True}
    with pytest.raises(InvalidArgument, match=DUPLICATE):
        repository.poll("m")


@pytest.mark.parametrize("name", ["nope", "..", "a/b", ".staging", ""])
def test_names_without_a_directory_are_not_found(tmp_path, name):
    (tmp_path / ".staging").mkdir()
    with pytest.raises(InvalidArgument):
        ModelRepository([DirectoryStore(tmp_path)]).poll(name)


def test_a_poll_settles_identity_and_versions(tmp_path):
    for version in (1, 2, 10):
        write_model(tmp_path, "m", add_sub(), version=version)
    polled = ModelRepository([DirectoryStore(tmp_path)]).poll("m")
    assert (polled.proto.name, polled.proto.backend) == ("m", "onnxruntime")
    assert polled.versions == (10,)
    (tmp_path / "m/config.pbtxt").write_text("version_policy { latest { num_versions: 2 } }")
    assert ModelRepository([DirectoryStore(tmp_path)]).poll("m").versions == (2, 10)
    (tmp_path / "m/config.pbtxt").write_text("version_policy { specific { versions: [1, 10, 7] } }")
    assert ModelRepository([DirectoryStore(tmp_path)]).poll("m").versions == (1, 10)
    (tmp_path / "m/config.pbtxt").write_text("version_policy { all { } }")
    assert ModelRepository([DirectoryStore(tmp_path)]).poll("m").versions == (1, 2, 10)


def test_a_complete_config_can_be_required(tmp_path):
    write_model(tmp_path, "m", add_sub())
    repository = ModelRepository([DirectoryStore(tmp_path)], require_complete=True)
    with pytest.raises(InvalidArgument, match="failed to open text file for read"):
        repository.poll("m")
    (tmp_path / "m/config.pbtxt").write_text('input { name: "x" }')
    with pytest.raises(InvalidArgument, match="must specify 'data_type'"):
        repository.poll("m")


def test_another_config_can_be_chosen_by_name(tmp_path):
    directory = write_model(tmp_path, "m", add_sub(), config="max_batch_size: 1")
    (directory / "configs").mkdir()
    (directory / "configs/h100.pbtxt").write_text("max_batch_size: 7")
    assert (
        ModelRepository([DirectoryStore(tmp_path)], config_name="h100")
        .poll("m")
        .proto.max_batch_size
        == 7
    )
    assert (
        ModelRepository([DirectoryStore(tmp_path)], config_name="x").poll("m").proto.max_batch_size
        == 1
    )


def test_an_override_takes_the_place_of_the_file(tmp_path):
    write_model(tmp_path, "m", add_sub(), config="max_batch_size: 1")
    polled = ModelRepository([DirectoryStore(tmp_path)]).poll(
        "m", LoadOverride('{"max_batch_size": 3}')
    )
    assert polled.proto.max_batch_size == 3
    with pytest.raises(InvalidArgument, match="Invalid config override"):
        ModelRepository([DirectoryStore(tmp_path)]).poll("m", LoadOverride("{"))


def test_a_config_that_is_no_text_is_refused(tmp_path):
    directory = write_model(tmp_path, "m", add_sub())
    (directory / "config.pbtxt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgument, match="failed to open text file for read"):
        ModelRepository([DirectoryStore(tmp_path)]).poll("m")


def change_config(directory):
    (directory / "config.pbtxt").write_text("max_batch_size: 2")


def change_version(directory):
    (directory / "1/model.onnx").write_bytes(b"other")


def add_shared_file(directory):
    (directory / "labels.txt").write_text("a")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (change_config, ("config",)),
        (change_version, ("versions",)),
        (add_shared_file, ("other",)),
    ],
)
def test_a_change_is_noticed_where_it_was_made(tmp_path, change, parts):
    directory = write_model(tmp_path, "m", add_sub(), config="max_batch_size: 1")
    before = take_snapshot(directory)
    assert take_snapshot(directory) == before
    change(directory)
    after = take_snapshot(directory)
    for part in ("config", "versions", "other"):
        assert (getattr(before, part) != getattr(after, part)) is (part in parts)


def test_an_old_file_copied_in_and_a_deleted_one_are_changes(tmp_path):
    directory = write_model(tmp_path, "m", add_sub())
    before = take_snapshot(directory)
    extra = directory / "1/extra.bin"
    extra.write_bytes(b"x")
    os.utime(extra, (1, 1))
    copied = take_snapshot(directory)
    assert copied.versions[1] != before.versions[1]
    extra.unlink()
    assert take_snapshot(directory).versions[1] != copied.versions[1]


@pytest.mark.timeout(20)
def test_links_in_a_circle_are_not_followed_for_ever(tmp_path):
    model = write_model(tmp_path / "repository", "add_sub", add_sub())
    for name in ("a", "b"):
        (model / name).symlink_to(".")
        (model / "1" / name).symlink_to(model.parent)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "labels.txt").write_text("cat")
    (model / "data").symlink_to(elsewhere)
    before = take_snapshot(model)
    assert {path for path, _, _ in before.other} >= {"a", "b", "data", "data/labels.txt"}
    (elsewhere / "labels.txt").write_text("another")
    assert take_snapshot(model).other != before.other
