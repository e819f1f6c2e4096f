"""Names and directories of a model repository; the one place that makes a path out of a name."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

CONFIG_FILE = "config.pbtxt"
CONFIGS_DIRECTORY = "configs"
# Directories of a model that are neither versions nor worth a word in the log.
SPECIAL_DIRECTORIES = frozenset({"warmup", "initial_state", CONFIGS_DIRECTORY})
_MAX_COMPONENT_BYTES = 255
_VERSION = re.compile(r"[1-9][0-9]{0,18}")


class OutsideRoot(ValueError):
    """A name that would leave its root, or that no file can have."""


def resolve_inside(root: Path, name: str, *, follow_links: bool = False) -> Path:
    """`root / name`, or OutsideRoot; a relative name with several components is fine, `..` never is.

    Links that lead out of the root are refused too, unless the caller reads what the operator of the
    server put there (`follow_links`), who may well keep the big files elsewhere.
    """
    parts = name.split("/")
    if not name or "\0" in name or name.startswith("/") or "\\" in name:
        raise OutsideRoot(f"'{name}' is not a relative path")
    for part in parts:
        if part in ("", ".", ".."):
            raise OutsideRoot(f"'{name}' must not contain empty, '.' or '..' components")
        if len(part.encode("utf-8", "surrogateescape")) > _MAX_COMPONENT_BYTES:
            raise OutsideRoot(f"a component of '{name[:64]}…' is longer than a file name can be")
    path = root.joinpath(*parts)
    if not follow_links:
        real_root = os.path.realpath(root)
        real = os.path.realpath(path)
        if real != real_root and not real.startswith(real_root.rstrip("/") + "/"):
            raise OutsideRoot(f"'{name}' leads outside of its directory through a link")
    return path


def is_plain_name(name: str) -> bool:
    """Whether a name can be that of one directory entry: no separator, not `.` or `..`; and text, as names
    of files need not be, but everything is that tells of them."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return (
        bool(name.strip())
        and not any(character in name for character in "/\\\0")
        and name.strip() not in (".", "..")
        and size <= _MAX_COMPONENT_BYTES
    )


def parse_version(text: str) -> int | None:
    """A version number in its only spelling: decimal, positive, no leading zero; else None."""
    if _VERSION.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number < 2**63 else None


@dataclass(frozen=True, slots=True)
class VersionDirectories:
    versions: tuple[int, ...]  # ascending
    remarks: tuple[str, ...]  # for the log: directories that look like versions and are not


def version_directories(model_directory: Path) -> VersionDirectories:
    versions: list[int] = []
    remarks: list[str] = []
    for entry in sorted(model_directory.iterdir()):
        name = entry.name
        if name.startswith(".") or name in SPECIAL_DIRECTORIES or not entry.is_dir():
            continue
        number = parse_version(name)
        if number is not None:
            versions.append(number)
        elif name.isdecimal() and name.startswith("0"):
            remarks.append(
                f"ignore version directory '{name}' which contains leading zeros in its directory name"
            )
        else:
            remarks.append(
                f"ignore version directory '{name}' which fails to convert to integral number"
            )
    return VersionDirectories(tuple(sorted(versions)), tuple(remarks))
