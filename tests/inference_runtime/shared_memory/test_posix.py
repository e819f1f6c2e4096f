"""System shared memory at its edge: names, bounds, and owners who change their mind."""

import os
import resource

import pytest

from inference_runtime.errors import InvalidArgument, Unavailable
from inference_runtime.shared_memory.posix import RESERVED_PREFIX, PosixMemory
from tests.inference_runtime.shared_memory.objects import DIRECTORY, open_files, shm_object

PAGE = os.sysconf("SC_PAGE_SIZE")


def refusal(key, offset=0, size=PAGE):
    before = open_files()
    with pytest.raises(InvalidArgument) as caught:
        PosixMemory("r", key, offset, size)
    assert open_files() == before
    return caught.value.text


def test_reads_and_writes_its_window_only():
    with shm_object(b"a" * PAGE + b"b" * PAGE + b"c" * PAGE) as path:
        memory = PosixMemory("r", path.name, PAGE, PAGE)
        assert memory.read(0, PAGE) == b"b" * PAGE
        assert memory.read(PAGE - 2, 2) == b"bb"
        assert memory.read(3, 0) == b""
        memory.write(1, memoryview(b"xyz"))
        memory.write(0, b"")
        memory.close()
        expected = b"a" * PAGE + b"bxyz" + b"b" * (PAGE - 4) + b"c" * PAGE
        assert path.read_bytes() == expected


@pytest.mark.parametrize(
    "key",
    [
        "..",
        ".",
        "/..",
        "../etc/passwd",
        "a/../b",
        "a/b",
        "a\0b",
        "\ud800",
        "x" * 256,
        "switchyard_nobody_made_it",
    ],
)
def test_names_do_not_leave_the_directory(key):
    assert refusal(key) == f"Unable to open shared memory region: '{key}'"


def test_a_key_has_a_length():
    assert "may have 1024 characters" in refusal("/" * 2000 + "a")


@pytest.mark.parametrize("key", ["", "/", "////"])
def test_a_key_is_more_than_slashes(key):
    assert f"invalid shm key '{key}'" in refusal(key)


def test_the_servers_own_objects_are_out_of_reach():
    name = f"{RESERVED_PREFIX}test_{os.getpid()}"
    (DIRECTORY / name).write_bytes(bytes(PAGE))
    try:
        assert "reserved prefix" in refusal(f"//{name}")
    finally:
        (DIRECTORY / name).unlink()


def test_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(PAGE))
    with shm_object(b"") as path:
        path.unlink()
        path.symlink_to(secret)
        assert "Unable to open" in refusal(path.name)


def test_only_files_are_memory():
    with shm_object(b"") as path:
        path.unlink()
        os.mkfifo(path)
        assert "Unable to open" in refusal(path.name)
        path.unlink()
        path.mkdir()
        assert "Unable to open" in refusal(path.name)
        path.rmdir()


@pytest.mark.parametrize(
    ("offset", "size", "text"),
    [
        (0, PAGE + 1, "invalid args"),
        (PAGE, 1, "invalid args"),
        (2**64 - 1, 2**64 - 1, "invalid args"),
        (2**63, 0, "invalid args"),
        (0, 0, "unable to process address space"),
        (1, 1, "unable to process address space"),
    ],
)
def test_a_window_lies_inside_the_object(offset, size, text):
    with shm_object(bytes(PAGE)) as path:
        found = refusal(path.name, offset, size)
        assert found.startswith("failed to register shared memory region 'r': ")
        assert text in found


def test_an_object_cut_short_is_told_and_not_made_longer():
    with shm_object(bytes(2 * PAGE)) as path:
        memory = PosixMemory("r", path.name, 0, 2 * PAGE)
        os.truncate(path, PAGE)
        with pytest.raises(InvalidArgument, match="has become smaller since the region was"):
            memory.read(PAGE - 4, 8)
        with pytest.raises(InvalidArgument, match="has become smaller"):
            memory.write(PAGE - 4, b"12345678")
        assert path.read_bytes() == bytes(PAGE)
        assert memory.read(0, PAGE) == bytes(PAGE)
        memory.close()


def test_an_object_lives_on_when_its_name_is_gone():
    with shm_object(b"z" * PAGE) as path:
        memory = PosixMemory("r", path.name, 0, PAGE)
        path.unlink()
        assert memory.read(0, 3) == b"zzz"
        memory.close()


def test_no_descriptor_left_means_try_again():
    with shm_object(bytes(PAGE)) as path:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(Unavailable, match="Unable to open shared memory region"):
                PosixMemory("r", path.name, 0, PAGE)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
