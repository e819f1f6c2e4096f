"""Repositories in object storage: what is listed, what is copied, and what never leaves the copy."""

import secrets
import sys

import fsspec
import pytest

from inference_runtime.errors import InvalidArgument, Unavailable, Unsupported
from inference_runtime.repository.locations import (
    Location,
    open_store,
    read_credentials,
    read_location,
)
from inference_runtime.repository.model_cache import ModelCache
from inference_runtime.repository.object_store import ObjectStore
from inference_runtime.repository.store import StoreUnreachable
from tests.s3_server import SECRETS, s3_server


@pytest.fixture(scope="module")
def s3():
    with s3_server() as server:
        yield server


@pytest.fixture
def cache(tmp_path):
    cache = ModelCache(tmp_path / "cache")
    yield cache
    cache.close()


@pytest.fixture
def prefix():
    return f"r{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def filesystem(s3):
    """One for all tests: making a client takes a second."""
    credentials = {"s3": {"": {"key_id": "tester", "secret_key": "secret", "region": "us-east-1"}}}
    location = read_location(s3.url("any"), credentials)
    make = fsspec.get_filesystem_class(location.protocol)
    return make(skip_instance_cache=True, use_listings_cache=False, **location.options)


@pytest.fixture
def store_at(s3, cache, filesystem):
    def make(path, cache=cache):
        return ObjectStore(f"s3://{s3.host}/{path}", path, lambda: filesystem, cache)

    return make


@pytest.fixture
def store(s3, store_at, prefix):
    return store_at(f"{s3.bucket}/{prefix}")


def contents(directory) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_models_are_what_has_keys_below_it(s3, store, prefix):
    assert store.names() == ()
    for key in ("b/1/model.onnx", "a/config.pbtxt", ".staging/1/model.onnx", "file.txt"):
        s3.put(f"{prefix}/{key}", b"x")
    s3.put(f"{prefix}/marked/1/")
    s3.put(f"{prefix}x/other/1/model.onnx")
    assert store.names() == ("a", "b", "marked")
    assert set(store.snapshots()) == {"a", "b", "marked"}
    assert store.holds("a")
    assert not store.holds("c")
    assert store.read("a", "config.pbtxt") == b"x"
    assert store.read("a", "configs/x.pbtxt") is None


def test_a_fetch_copies_what_there_is_and_markers_of_directories(s3, store, prefix):
    s3.put(f"{prefix}/m/config.pbtxt", b"config")
    s3.put(f"{prefix}/m/1/deep/model.onnx", b"weights")
    s3.put(f"{prefix}/m/2/")
    files = store.fetch("m")
    assert files.directory.name == "m"
    assert contents(files.directory) == {
        "config.pbtxt": b"config",
        "1/deep/model.onnx": b"weights",
    }
    assert (files.directory / "2").is_dir()
    assert set(files.snapshot.versions) == {1, 2}
    assert files.snapshot == store.snapshots()["m"]
    files.copy.release()
    assert not files.directory.exists()


def test_the_same_state_is_copied_once_and_a_change_takes_over_the_rest(s3, store, prefix):
    s3.put(f"{prefix}/m/1/model.onnx", b"one")
    s3.put(f"{prefix}/m/2/model.onnx", b"two")
    first = store.fetch("m")
    again = store.fetch("m")
    assert again.copy is first.copy
    again.copy.release()
    assert first.directory.exists()
    s3.put(f"{prefix}/m/2/model.onnx", b"TWO!")
    second = store.fetch("m")
    assert second.snapshot.versions[1] == first.snapshot.versions[1]
    assert second.snapshot.versions[2] != first.snapshot.versions[2]
    # The first copy is as it was; what did not change is the same file.
    assert contents(first.directory)["2/model.onnx"] == b"two"
    assert contents(second.directory) == {"1/model.onnx": b"one", "2/model.onnx": b"TWO!"}
    inodes = [(each.directory / "1/model.onnx").stat().st_ino for each in (first, second)]
    assert inodes[0] == inodes[1]
    first.copy.release()
    assert contents(second.directory)["1/model.onnx"] == b"one"
    second.copy.release()


def test_a_deleted_key_and_an_equal_one_written_again_are_changes(s3, store, prefix):
    s3.put(f"{prefix}/m/1/model.onnx", b"one")
    s3.put(f"{prefix}/m/labels.txt", b"a")
    before = store.snapshots()["m"]
    assert store.snapshots()["m"] == before
    s3.delete(f"{prefix}/m/labels.txt")
    after = store.snapshots()["m"]
    assert after.other != before.other
    assert after.versions == before.versions


@pytest.mark.parametrize(
    "key", ["../evil", "1/../../../evil", "1//evil", "1/a\\..\\evil", "/evil", "1/" + "x" * 256]
)
def test_keys_that_lead_out_of_the_model_fail_its_load_and_no_others(
    s3, store, prefix, tmp_path, key
):
    s3.put(f"{prefix}/good/1/model.onnx", b"x")
    s3.put(f"{prefix}/m/1/model.onnx", b"x")
    s3.put(f"{prefix}/m/{key}", b"evil")
    with pytest.raises(InvalidArgument, match=r"model 'm' in s3://.* can not be copied"):
        store.fetch("m")
    files = store.fetch("good")
    assert contents(files.directory) == {"1/model.onnx": b"x"}
    assert not [path for path in tmp_path.rglob("*") if b"evil" in bytes(path)]
    assert store.names() == ("good", "m")


def test_a_key_with_others_below_it_is_a_directory(s3, store, prefix):
    s3.put(f"{prefix}/m/1", b"file")
    s3.put(f"{prefix}/m/1/model.onnx", b"x")
    assert contents(store.fetch("m").directory) == {"1/model.onnx": b"x"}


def test_a_copy_that_can_not_be_made_leaves_nothing(s3, store, prefix, tmp_path, monkeypatch):
    s3.put(f"{prefix}/m/1/model.onnx", b"x")
    monkeypatch.setattr(ObjectStore, "_download", lambda self, root, wanted: None)
    with pytest.raises(InvalidArgument, match="the files of 'm' can not be copied"):
        store.fetch("m")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_bucket_and_a_dead_server_are_no_answer(store_at, cache, monkeypatch):
    missing = store_at("nobucket/x")
    for call in (missing.names, missing.snapshots, lambda: missing.fetch("m")):
        with pytest.raises(StoreUnreachable, match=r"s3://.*nobucket/x can not be read"):
            call()
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    dead = open_store(read_location("s3://127.0.0.1:9/models/x", {}), cache)
    with pytest.raises(StoreUnreachable, match="can not be read: Could not connect"):
        dead.names()


def test_the_copies_have_a_bound(s3, store_at, prefix, tmp_path):
    small = ModelCache(tmp_path / "small", max_bytes=100)
    bounded = store_at(f"{s3.bucket}/{prefix}", small)
    s3.put(f"{prefix}/m/1/model.onnx", b"x" * 60)
    s3.put(f"{prefix}/n/1/model.onnx", b"x" * 60)
    files = bounded.fetch("m")
    with pytest.raises(Unavailable, match="room for 40: see --switchyard-cache-bytes"):
        bounded.fetch("n")
    assert len(list((tmp_path / "small").iterdir())) == 1
    files.copy.release()
    bounded.fetch("n").copy.release()
    assert list((tmp_path / "small").iterdir()) == []


def test_what_an_earlier_process_left_is_removed(s3, store, prefix, tmp_path):
    for token in ("0123456789abcdef", ".0123456789abcdef", "somebody's"):
        (tmp_path / "cache" / token / "m").mkdir(parents=True)
    s3.put(f"{prefix}/m/1/model.onnx", b"x")
    files = store.fetch("m")
    found = {path.name for path in (tmp_path / "cache").iterdir()}
    assert found == {files.directory.parent.name, "somebody's"}


def test_any_file_system_of_fsspec_serves(cache, prefix):
    store = open_store(read_location(f"memory://{prefix}/r", {}), cache)
    with pytest.raises(StoreUnreachable):
        store.names()
    memory = fsspec.filesystem("memory")
    memory.pipe_file(f"/{prefix}/r/m/1/model.onnx", b"x")
    memory.makedirs(f"/{prefix}/r/e/1")
    assert store.names() == ("e", "m")
    before = store.snapshots()
    memory.pipe_file(f"/{prefix}/r/m/1/model.onnx", b"y")
    assert store.snapshots()["m"] != before["m"]
    assert contents(store.fetch("m").directory) == {"1/model.onnx": b"y"}
    assert (store.fetch("e").directory / "1").is_dir()


def test_locations_as_triton_writes_them():
    plain = read_location("s3://bucket/a/b", {})
    assert (plain.protocol, plain.path) == ("s3", "bucket/a/b")
    assert "endpoint_url" not in plain.options
    for text, endpoint in (
        ("s3://https://h.example:443/bucket/a", "https://h.example:443"),
        ("s3://http://h.example:80/bucket/a", "http://h.example:80"),
        ("s3://10.0.0.1:9000/bucket/a", "http://10.0.0.1:9000"),
    ):
        hosted = read_location(text, {})
        assert (hosted.options["endpoint_url"], hosted.path) == (endpoint, "bucket/a")
        assert hosted.options["config_kwargs"]["s3"] == {"addressing_style": "path"}
    assert read_location("/models", {}) == Location("/models", "", "/models")
    assert read_location("file:///models", {}).path == "/models"
    assert read_location("ftp://user:secret@h/x", {}).shown == "ftp://h/x"
    for text in ("s3://", "s3://https://host/bucket", "gs:///"):
        with pytest.raises(InvalidArgument):
            read_location(text, {})


def test_the_longest_prefix_of_the_credential_file_wins(tmp_path):
    path = tmp_path / "credentials.json"
    path.write_text(
        '{"s3": {"": {"key_id": "any", "secret_key": "s"},'
        ' "s3://bucket": {"key_id": "mine", "secret_key": "t", "region": "eu-west-1"}}}'
    )
    found = read_credentials(path)
    assert read_location("s3://other/x", found).options["key"] == "any"
    mine = read_location("s3://bucket/x", found).options
    assert (mine["key"], mine["secret"]) == ("mine", "t")
    assert mine["client_kwargs"] == {"region_name": "eu-west-1"}
    path.write_text('{"s3": []}')
    with pytest.raises(InvalidArgument, match="must map URL prefixes"):
        read_credentials(path)
    with pytest.raises(InvalidArgument, match="can not be read"):
        read_credentials(tmp_path / "none")


def test_a_missing_package_is_named(cache, monkeypatch):
    with pytest.raises(Unsupported, match="needs a Python package that is not installed"):
        open_store(read_location("gs://bucket/x", {}), cache)
    with pytest.raises(Unsupported, match="nope://x/y: Protocol not known: nope"):
        open_store(read_location("nope://x/y", {}), cache)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(Unsupported, match=r"pip install -r requirements/s3\.txt"):
        open_store(read_location("s3://bucket/x", {}), cache)


class SilentFiles:
    """A file system that lets its callers wait for nothing; the clock goes by itself."""

    def __init__(self) -> None:
        self.asked = 0
        self.now = 100.0
        self.patience = 0.0
        self.answers = False

    def invalidate_cache(self) -> None:
        pass

    def ls(self, path, **more):
        self.asked += 1
        self.now += self.patience
        if self.answers:
            return [{"name": f"{path}/m", "type": "directory"}]
        raise TimeoutError("no answer")


def test_a_store_that_let_somebody_wait_is_not_asked_again_at_once(cache):
    files = SilentFiles()
    store = ObjectStore("s3://b/r", "b/r", lambda: files, cache, clock=lambda: files.now)

    def refused() -> int:
        with pytest.raises(StoreUnreachable, match="s3://b/r can not be read: no answer"):
            store.names()
        return files.asked

    assert [refused(), refused()] == [1, 2]  # who is refused at once may ask again at once
    files.patience = 40
    assert [refused(), refused(), refused()] == [3, 3, 3]
    files.now += 11
    files.answers = True
    assert store.names() == ("m",)
