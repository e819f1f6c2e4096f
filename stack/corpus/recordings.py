"""Spoken words, from the Debian package that ships them to test loudspeakers."""

import subprocess
import tempfile
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stack.corpus.wheels import FetchFailed

_PACKAGE = "alsa-utils"
_FOLDER = "usr/share/sounds/alsa"
_SECONDS = 120


def recording(name: str, root: Path) -> NDArray[np.float32]:
    """Samples at 16 kHz of, for example, "Front_Center" or "Noise". Needs apt, not its privileges."""
    from scipy.signal import resample_poly

    with wave.open(str(_unpacked(root) / _FOLDER / f"{name}.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return np.asarray(resample_poly(samples.astype(np.float32) / 32768, 1, 3), np.float32)


def _unpacked(root: Path) -> Path:
    target = root / _PACKAGE
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        _run(["apt-get", "download", "-q", _PACKAGE], Path(scratch))
        (package,) = Path(scratch).glob("*.deb")
        _run(["dpkg-deb", "--extract", package.name, "unpacked"], Path(scratch))
        (Path(scratch) / "unpacked").rename(target)
    return target


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise FetchFailed(f"the Debian package {_PACKAGE} could not be fetched: {problem}") from problem  # fmt: skip
