"""The models that clients loaded explicitly, with their overrides: what a restarted server loads again."""

import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inference_runtime.lifecycle.state_file import StateFile
from inference_runtime.repository.overrides import LoadOverride
from inference_runtime.spec.layout import OutsideRoot, resolve_inside

FILE_NAME = "models.json"
OVERRIDES_DIRECTORY = "overrides"


class WantedModels:
    def __init__(self, state_directory: Path | None) -> None:
        self._directory = state_directory
        self._file = StateFile(state_directory, FILE_NAME)
        self._models: dict[str, LoadOverride | None] = {}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()  # loads of several models end on several threads

    def restore(self) -> Mapping[str, LoadOverride | None]:
        body = self._file.read()
        if body is not None:
            try:
                self._models = dict(self._entry(entry) for entry in body["models"])
            except (KeyError, TypeError, ValueError, OutsideRoot) as error:
                self._models = {}
                self._file.refuse(f"an entry is not understood: {error!r}")
        return dict(self._models)

    def add(self, name: str, override: LoadOverride | None) -> None:
        """Blocking: returns when it is on disk."""
        with self._lock:
            if name not in self._models or self._models[name] != override:
                self._models[name] = override
                self._write()

    def remove(self, name: str) -> None:
        with self._lock:
            if name in self._models:
                del self._models[name]
                self._write()

    def overrides_directory(self) -> Path:
        """Where files given with a load are kept for as long as the model is loaded."""
        if self._directory is not None:
            return self._directory / OVERRIDES_DIRECTORY
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="switchyard-overrides-")
        return Path(self._temporary.name)

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def _write(self) -> None:
        self._file.write(
            {"models": [_body(name, override) for name, override in sorted(self._models.items())]}
        )

    def _entry(self, entry: Any) -> tuple[str, LoadOverride | None]:
        name, config, files = entry["name"], entry.get("config"), entry.get("files")
        if not isinstance(name, str):
            raise TypeError(f"name {name!r}")
        if config is None:
            return name, None
        directory = None
        if files is not None and self._directory is not None:
            directory = resolve_inside(self._directory / OVERRIDES_DIRECTORY, files)
        return name, LoadOverride(str(config), directory)


def _body(name: str, override: LoadOverride | None) -> dict[str, Any]:
    if override is None:
        return {"name": name}
    body = {"name": name, "config": override.config_json}
    if override.directory is not None:
        body["files"] = override.directory.name
    return body
