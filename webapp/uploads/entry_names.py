"""Which names an archive entry may have, and where it may be written. No Django."""

import unicodedata
from pathlib import Path

from inference_runtime.spec.layout import OutsideRoot, resolve_inside

_MAX_DEPTH = 12
_MAX_NAME_BYTES = 200
_LITTER = ("__MACOSX", ".DS_Store", "Thumbs.db")  # what desktops add without being asked


class EntryRefused(Exception):
    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fix = fix


def entry_parts(name: str) -> tuple[str, ...]:
    """The components of an entry's name, or EntryRefused when it could leave the folder."""
    if name.startswith("/") or "\\" in name or name[1:2] == ":":
        raise EntryRefused(
            f"Entry {name!r} has an absolute path or a backslash.",
            "Pack with relative paths and forward slashes.",
        )
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise EntryRefused(
            f"Entry {name!r} leads outside the archive.", "Pack from inside the model's folder."
        )
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        raise EntryRefused(
            f"Entry {name!r} has control characters in its name.", "Rename the file."
        )
    if len(parts) > _MAX_DEPTH or any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
        raise EntryRefused(
            f"Entry {name[:60]!r}… is nested too deep or its name is too long.",
            f"Use at most {_MAX_DEPTH} folders and {_MAX_NAME_BYTES} bytes a name.",
        )
    return parts


class EntryNames:
    """The names met so far in one archive: no entry may be written twice or turn a file into a folder."""

    def __init__(self) -> None:
        self._files: set[tuple[str, ...]] = set()
        self._folders: set[tuple[str, ...]] = set()

    def target(self, into: Path, name: str, *, is_folder: bool) -> Path | None:
        """Where the entry goes; None when there is nothing to write."""
        parts = entry_parts(name)
        if not parts or any(part in _LITTER or part.startswith("._") for part in parts):
            return None
        above = {parts[:depth] for depth in range(1, len(parts))}
        clash = parts in self._files or not above.isdisjoint(self._files)
        if is_folder:
            self._folders.add(parts)
        else:
            clash = clash or parts in self._folders
            self._files.add(parts)
        self._folders |= above
        if clash:
            raise EntryRefused(
                f"Entry {name!r} appears twice, or is both a file and a folder.",
                "Pack every file once.",
            )
        try:
            return resolve_inside(into, "/".join(parts))
        except OutsideRoot as problem:
            raise EntryRefused(
                f"Entry {name!r}: {problem}.", "Pack plain relative names."
            ) from None
