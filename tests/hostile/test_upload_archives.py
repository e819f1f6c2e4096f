"""Archives that try to leave their folder, fill the disk or hide something."""

import io
import stat
import tarfile
import zipfile
import zlib

import pytest

from tests import onnx_models
from tests.publishing import Publishing, onnx_bytes, tar_of, zip_of

MODEL = onnx_bytes(onnx_models.add_sub("FP32"))


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "a/../../evil.txt", "/etc/evil.txt", "C:/evil.txt", "a\\..\\evil.txt", "x\n/y"],
)
def test_a_zip_entry_that_leaves_the_folder_is_refused_whole(
    publishing: Publishing, name: str
) -> None:
    version = publishing.upload("m", zip_of({"model.onnx": MODEL, name: b"evil"}), "m.zip")

    publishing.assert_rejected(version, "archive", "Entry")
    assert not list(publishing.home.rglob("evil*"))


def test_a_tar_entry_that_leaves_the_folder_is_refused(publishing: Publishing) -> None:
    version = publishing.upload("m", tar_of({"model.onnx": MODEL, "../evil": b"x"}), "m.tar.gz")

    publishing.assert_rejected(version, "archive", "leads outside")
    assert not list(publishing.home.rglob("evil*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_in_a_tar_are_refused(publishing: Publishing, kind: bytes) -> None:
    link = tarfile.TarInfo("weights.bin")
    link.type = kind
    link.linkname = "/etc/passwd"
    version = publishing.upload("m", tar_of({"model.onnx": MODEL}, extra=[link]), "m.tar.gz")

    publishing.assert_rejected(version, "archive", "is a link", "--dereference")


def test_a_symlink_in_a_zip_is_refused(publishing: Publishing) -> None:
    link = zipfile.ZipInfo("model.onnx")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    version = publishing.upload("m", buffer.getvalue(), "m.zip")

    publishing.assert_rejected(version, "archive", "is a link")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE])
def test_devices_pipes_and_sparse_files_are_refused(publishing: Publishing, kind: bytes) -> None:
    odd = tarfile.TarInfo("odd")
    odd.type = kind
    packed = tar_of({"model.onnx": MODEL}, extra=[odd])
    version = publishing.upload("m", packed, "m.tar.gz")

    publishing.assert_rejected(version, "archive")


def test_a_zip_bomb_stops_at_the_ratio_and_gives_the_disk_back(publishing: Publishing) -> None:
    version = publishing.upload("m", zip_of({"model.onnx": bytes(120 * 1024**2)}), "bomb.zip")

    publishing.assert_rejected(version, "archive", "zip bomb")


def test_a_forged_size_does_not_help_a_bomb(publishing: Publishing) -> None:
    packed = bytearray(zip_of({"model.onnx": bytes(120 * 1024**2)}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = packed.find(signature) + offset
        packed[at : at + 4] = (10).to_bytes(4, "little")
    version = publishing.upload("m", bytes(packed), "bomb.zip")

    publishing.assert_rejected(version, "archive")


def test_unpacked_bytes_are_limited(publishing: Publishing, settings) -> None:
    settings.MAX_UNPACKED_BYTES = 1024 * 1024
    content = bytes(range(256)) * 8192
    version = publishing.upload("m", tar_of({"model.onnx": content}), "m.tar.gz")

    publishing.assert_rejected(version, "archive", "SWITCHYARD_MAX_UNPACKED_BYTES")


def test_a_forged_header_size_does_not_fill_memory(publishing: Publishing) -> None:
    header = tarfile.TarInfo("PaxHeaders/x")
    header.type = tarfile.XHDTYPE
    header.size = 3 * 1024**3
    zeros = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = zeros.compress(header.tobuf(tarfile.GNU_FORMAT))
    packed += b"".join(zeros.compress(bytes(1024**2)) for _ in range(64)) + zeros.flush()
    version = publishing.upload("m", packed, "m.tar.gz")

    publishing.assert_rejected(version, "archive", "header")


def test_too_many_files_are_refused(publishing: Publishing) -> None:
    entries = {f"{number}.txt": b"" for number in range(2100)}
    version = publishing.upload("m", zip_of({"model.onnx": MODEL, **entries}), "m.zip")

    publishing.assert_rejected(version, "archive", "files")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_appears_twice_is_refused(publishing: Publishing) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model.onnx", MODEL)
        archive.writestr("./model.onnx", b"other")
    version = publishing.upload("m", buffer.getvalue(), "m.zip")

    publishing.assert_rejected(version, "archive", "twice")


def test_an_encrypted_zip_is_refused(publishing: Publishing) -> None:
    packed = bytearray(zip_of({"model.onnx": MODEL}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = packed.find(signature) + offset
        packed[at] |= 1
    version = publishing.upload("m", bytes(packed), "m.zip")

    publishing.assert_rejected(version, "archive", "encrypted", "without a password")


def test_a_cut_off_archive_is_refused(publishing: Publishing) -> None:
    packed = tar_of({"model.onnx": MODEL * 100}, mode="w")
    version = publishing.upload("m", packed[: len(packed) // 2], "m.tar")

    publishing.assert_rejected(version, "archive", "upload it again")


def test_a_lone_gzip_stream_is_refused(publishing: Publishing) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = squeeze.compress(MODEL) + squeeze.flush()
    version = publishing.upload("m", packed, "model.onnx.gz")

    publishing.assert_rejected(version, "archive", "uncompressed")


def test_other_archives_are_named(publishing: Publishing) -> None:
    version = publishing.upload("m", b"7z\xbc\xaf\x27\x1c" + bytes(100), "m.7z")

    publishing.assert_rejected(version, "archive", "7z", ".zip or .tar.gz")
