"""Names are not paths."""

import pytest

from inference_runtime.spec.layout import (
    OutsideRoot,
    is_plain_name,
    parse_version,
    resolve_inside,
    version_directories,
)


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "..", "../x", "a/../b", "a//b", "./a", "a/.", "a\0b", "a\\b", "x" * 256],
    ids=lambda name: name[:12],
)
def test_what_would_leave_the_root_is_refused(tmp_path, name):
    with pytest.raises(OutsideRoot):
        resolve_inside(tmp_path, name)


@pytest.mark.parametrize("name", ["a", "a/b.txt", "...", "model..1", "ü"])
def test_what_stays_inside_is_joined(tmp_path, name):
    assert resolve_inside(tmp_path, name) == tmp_path / name


def test_a_link_that_leads_outside_is_refused_unless_the_operator_may(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("x")
    (root / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OutsideRoot):
        resolve_inside(root, "link")
    assert resolve_inside(root, "link", follow_links=True).read_text() == "x"


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("42", 42), (str(2**63 - 1), 2**63 - 1)])
def test_versions_are_positive_decimals(text, number):
    assert parse_version(text) == number


@pytest.mark.parametrize("text", ["", "0", "01", "-1", "1.0", "a", " 1", "1 ", "٣", str(2**63)])
def test_other_spellings_are_no_version(text):
    assert parse_version(text) is None


@pytest.mark.parametrize("name", ["", "  ", "..", " ..", ".", "a/b", "a\0", "x" * 300])
def test_names_that_no_directory_entry_has(name):
    assert not is_plain_name(name)


def test_directories_that_are_no_versions_are_remarked_on(tmp_path):
    for name in ("1", "10", "2", "003", "abc", "warmup", "configs", ".staging"):
        (tmp_path / name).mkdir()
    (tmp_path / "7").write_text("a file, no directory")
    found = version_directories(tmp_path)
    assert found.versions == (1, 2, 10)
    assert found.remarks == (
        "ignore version directory '003' which contains leading zeros in its directory name",
        "ignore version directory 'abc' which fails to convert to integral number",
    )
