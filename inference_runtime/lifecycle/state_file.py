"""JSON files that survive the process: replaced whole, on disk before anybody is told, set aside when broken."""

import json
import logging
import os
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


class StateFile:
    """Without a directory nothing is kept: reads find nothing and writes do nothing."""

    def __init__(self, directory: Path | None, name: str) -> None:
        self._path = directory / name if directory is not None else None

    def read(self) -> dict[str, Any] | None:
        if self._path is None or not self._path.exists():
            return None
        try:
            body = json.loads(self._path.read_bytes())
            if isinstance(body, dict):
                return body
            problem = "it is not a JSON object"
        except (ValueError, OSError, RecursionError) as error:
            problem = str(error)
        self._set_aside(problem)
        return None

    def write(self, body: dict[str, Any]) -> None:
        """Atomic and durable: after a crash there is the old file or the new one."""
        path = self._path
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{path.name}.new")
        with staged.open("wb") as file:
            file.write(json.dumps(body, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def refuse(self, problem: str) -> None:
        """What was read makes no sense: keep it for a person to look at, and go on without."""
        self._set_aside(problem)

    def _set_aside(self, problem: str) -> None:
        path = self._path
        if path is None or not path.exists():
            return
        number = 1
        while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
            number += 1
        logger.error("%s can not be used, set aside as %s: %s", path, aside.name, problem)
        try:
            path.rename(aside)
        except OSError as error:
            logger.error("%s could not be set aside: %s", path, error)
