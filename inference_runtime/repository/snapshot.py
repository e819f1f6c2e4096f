"""What a model's files looked like at one moment, to see later whether something changed.

Change time counts as well as modification time, so a file copied in with an old date, a rename and a
deletion are all noticed.
"""

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inference_runtime.spec.layout import CONFIG_FILE, CONFIGS_DIRECTORY, parse_version

# (path below the model, newest of mtime and ctime in ns or the store's own tag, size), sorted
Entry = tuple[str, int | str, int]
Signature = tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    config: Signature
    versions: Mapping[int, Signature]
    other: Signature  # labels, warm-up data and the like, which every version may depend on


EMPTY = ModelSnapshot((), {}, ())


def take_snapshot(model_directory: Path) -> ModelSnapshot:
    """Files that vanish while we look are left out: the next look sees the difference."""
    above = (_place(model_directory.stat()),)
    config: list[Entry] = []
    other: list[Entry] = []
    versions: dict[int, Signature] = {}
    for entry in sorted(os.scandir(model_directory), key=lambda entry: entry.name):
        number = parse_version(entry.name)
        if number is not None and entry.is_dir():
            versions[number] = tuple(_walk(entry, above))
        elif entry.name in (CONFIG_FILE, CONFIGS_DIRECTORY):
            config += _walk(entry, above)
        else:
            other += _walk(entry, above)
    return ModelSnapshot(tuple(config), versions, tuple(other))


def snapshot_of(files: Iterable[Entry], directories: Collection[str] = ()) -> ModelSnapshot:
    """Of files that lie elsewhere, by what a listing says of them."""
    config: list[Entry] = []
    other: list[Entry] = []
    versions: dict[int, list[Entry]] = {}
    for path in directories:
        number = parse_version(path.partition("/")[0])
        if number is not None:
            versions.setdefault(number, [])
    for entry in sorted(files):
        first, slash, _ = entry[0].partition("/")
        number = parse_version(first) if slash else None
        if number is not None:
            versions.setdefault(number, []).append(entry)
        elif first in (CONFIG_FILE, CONFIGS_DIRECTORY):
            config.append(entry)
        else:
            other.append(entry)
    return ModelSnapshot(
        tuple(config),
        {number: tuple(found) for number, found in sorted(versions.items())},
        tuple(other),
    )


Place = tuple[int, int]  # of a directory: its device and its number there


def _place(status: os.stat_result) -> Place:
    return status.st_dev, status.st_ino


def _walk(entry: os.DirEntry[str], above: tuple[Place, ...], prefix: str = "") -> list[Entry]:
    """`above`: the directories it is in. A link to one of them is not followed: that way has no end."""
    path = f"{prefix}{entry.name}"
    try:
        status = entry.stat()
    except OSError:
        return []
    directory = stat.S_ISDIR(status.st_mode)
    size = 0 if directory else status.st_size
    found: list[Entry] = [(path, max(status.st_mtime_ns, status.st_ctime_ns), size)]
    if directory and _place(status) not in above:
        above = (*above, _place(status))
        try:
            children = sorted(os.scandir(entry.path), key=lambda child: child.name)
        except OSError:
            return found
        for child in children:
            found += _walk(child, above, f"{path}/")
    return found
