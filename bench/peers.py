"""Model servers that others install in place of ours: the kserve SDK and MLServer, each in a venv of its own."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Ports, ServerProcess, listens, running
from bench.subjects import Subject

_HERE = Path(__file__).parent
_INSTALL_LIMIT_S = 300


class NoPeer(Exception):
    """It can not be had here; the text says why."""


@dataclass(frozen=True)
class Peer:
    """`package` is its name and version on PyPI."""

    name: str
    package: str

    def install(self, home: Path) -> Path:
        """The interpreter of its venv, made where there is none. Raises NoPeer."""
        folder = home / "bench-peers" / self.name
        python, done = folder / "bin" / "python", folder / ".installed"
        if done.exists() and done.read_text() == self.package:
            return python
        print(f"installing {self.package}", file=sys.stderr, flush=True)
        commands = (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", self.package, "onnxruntime"],
        )
        for command in commands:
            try:
                subprocess.run(
                    command, check=True, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S
                )
            except subprocess.CalledProcessError as error:
                last = (error.stderr.strip().splitlines() or ["no word of why"])[-1]
                raise NoPeer(f"{self.package} can not be installed: {last[:200]}") from error
            except subprocess.TimeoutExpired as error:
                raise NoPeer(f"{self.package} took too long to install") from error
        done.write_text(self.package)
        return python


KSERVE = Peer("kserve", "kserve==0.21.0")
MLSERVER = Peer("mlserver", "mlserver==1.7.1")


@contextmanager
def serve_peer(
    peer: Peer, python: Path, folder: Path, subjects: Sequence[Subject]
) -> Iterator[ServerProcess]:
    """Raises NoPeer when it does not start."""

    def command(ports: Ports) -> list[str]:
        script = str(_HERE / "peer_servers" / f"serve_{peer.name}.py")
        numbers = [str(ports.http), str(ports.grpc), str(ports.metrics)]
        return [str(python), script, str(folder), *numbers, *(str(s.file) for s in subjects)]

    log = folder / f"{peer.name}.log"
    try:
        with running(command, lambda ports: listens(ports.grpc), log=log) as process:
            yield process
    except RuntimeError as error:
        raise NoPeer(f"{peer.package} did not start: {_last_line(log)}") from error


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"
