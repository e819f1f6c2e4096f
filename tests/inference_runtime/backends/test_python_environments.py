"""EXECUTION_ENV_PATH: archives of strangers, and directories that are shared and go away."""

import bz2
import fcntl
import gzip
import io
import lzma
import random
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from inference_runtime.backends.python import environments
from inference_runtime.backends.python.environments import EnvironmentStore
from inference_runtime.errors import InvalidArgument


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def archive(path: Path, *members: tarfile.TarInfo | str) -> Path:
    with tarfile.open(path, "w:gz") as opened:
        for member in ("bin/activate", "bin/python", *members):
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            content = b"x" if info.isreg() else b""
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def described(member: tarfile.TarInfo | str) -> str:
    """Without the address in memory, which differs from process to process."""
    if isinstance(member, str):
        return member
    return f"{member.name}:{member.type.decode()}:{member.linkname}"


@pytest.mark.parametrize(
    "members",
    [
        ["../outside"],
        ["a/../../outside"],
        ["/absolute"],
        [special("link", tarfile.SYMTYPE, "/etc/passwd")],
        [special("link", tarfile.SYMTYPE, "../../outside")],
        [special("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [special("out", tarfile.SYMTYPE, ".."), "out/outside"],
        [special("device", tarfile.CHRTYPE)],
        [special("pipe", tarfile.FIFOTYPE)],
    ],
    ids=lambda members: " ".join(map(described, members)),
)
def test_hostile_archives_are_refused_and_leave_nothing(tmp_path, temporary, members):
    path = archive(tmp_path / "env.tar.gz", *members)
    with pytest.raises(InvalidArgument, match="environment archive"):
        EnvironmentStore().acquire(str(path), tmp_path)
    assert list(temporary.iterdir()) == []
    assert not list(tmp_path.rglob("outside"))


def test_an_archive_has_its_bounds(tmp_path, temporary, monkeypatch):
    path = archive(tmp_path / "env.tar.gz", "a", "b", "c")
    monkeypatch.setattr(environments, "MAX_ENTRIES", 3)
    with pytest.raises(InvalidArgument, match="too large"):
        EnvironmentStore().acquire(str(path), tmp_path)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08cut"])
def test_what_is_no_archive_is_refused(tmp_path, temporary, content):
    path = tmp_path / "env.tar.gz"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="can not be unpacked"):
        EnvironmentStore().acquire(str(path), tmp_path)
    with pytest.raises(InvalidArgument, match="can not be read"):
        EnvironmentStore().acquire(str(tmp_path / "nowhere"), tmp_path)
    assert list(temporary.iterdir()) == []


def test_one_archive_is_unpacked_once_and_goes_with_its_last_user(tmp_path, temporary):
    archive(tmp_path / "env.tar.gz")
    store = EnvironmentStore()
    first, second = (
        store.acquire("$$TRITON_MODEL_DIRECTORY/env.tar.gz", tmp_path) for _ in range(2)
    )
    assert first == second
    assert [entry.name for entry in temporary.iterdir()] == [first.directory.name]
    assert first.directory.name.startswith("python_env_")
    assert first.variables({"PATH": "/bin"})["PATH"] == f"{first.directory}/bin:/bin"
    store.release(first)
    assert Path(first.interpreter).is_file()
    store.release(second)
    assert list(temporary.iterdir()) == []


def test_a_directory_is_used_as_it_is(tmp_path):
    directory = tmp_path / "env"
    (directory / "bin").mkdir(parents=True)
    store = EnvironmentStore()
    with pytest.raises(InvalidArgument, match="should contain an 'activate' script"):
        store.acquire(str(directory), tmp_path)
    (directory / "bin" / "activate").write_text("")
    environment = store.acquire(str(directory), tmp_path)
    store.release(environment)
    assert directory.is_dir()


def test_what_a_crashed_server_left_is_removed_and_what_another_uses_is_not(tmp_path, temporary):
    for name in ("python_env_left", "python_env_used"):
        (temporary / name).mkdir()
        (temporary / name / ".in-use").touch()
    store = EnvironmentStore()
    with (temporary / "python_env_used" / ".in-use").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = store.acquire(str(archive(tmp_path / "env.tar.gz")), tmp_path)
    assert {entry.name for entry in temporary.iterdir()} == {
        "python_env_used",
        environment.directory.name,
    }
    store.release(environment)


def test_an_archive_may_begin_with_the_directory_itself(tmp_path):
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    for name in ("activate", "python"):
        (tree / "bin" / name).write_text("x")
    path = tmp_path / "env.tar.gz"
    subprocess.run(["tar", "-czf", path, "-C", tree, "."], check=True)
    store = EnvironmentStore()
    environment = store.acquire(str(path), tmp_path)
    assert Path(environment.interpreter).read_text() == "x"
    store.release(environment)


@pytest.mark.parametrize("module", [gzip, bz2, lzma], ids=lambda module: module.__name__)
def test_a_damaged_archive_is_refused(tmp_path, temporary, module):
    path, plain = tmp_path / "env.tar", io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as opened:
        for name in ("bin/activate", "bin/python"):
            info = tarfile.TarInfo(name)
            info.size = 100_000
            opened.addfile(info, io.BytesIO(random.Random(1).randbytes(info.size)))
    content = bytearray(module.compress(plain.getvalue()))
    for at in range(len(content) // 2, len(content) // 2 + 20):
        content[at] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="can not be unpacked"):
        EnvironmentStore().acquire(str(path), tmp_path)
    assert list(temporary.iterdir()) == []
