"""What a load request may bring along: a config in place of the file's, files in place of the directory."""

import base64
import binascii
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.layout import OutsideRoot, resolve_inside

CONFIG_KEY = "config"
FILE_PREFIX = "file:"


@dataclass(frozen=True, slots=True)
class LoadOverride:
    config_json: str
    directory: Path | None = None  # holds the given files, in place of the model's directory


@dataclass(frozen=True, slots=True)
class LoadParameters:
    """The parameters of a load request, checked and not yet written anywhere."""

    config_json: str | None = None
    files: Mapping[str, bytes] | None = None

    @property
    def empty(self) -> bool:
        return self.config_json is None and not self.files


def read_load_parameters(parameters: Mapping[str, Any]) -> LoadParameters:
    """`config` → JSON text, `file:<path>` → bytes (or base64 text, as it comes over HTTP)."""
    config: str | None = None
    files: dict[str, bytes] = {}
    for key, value in parameters.items():
        if key == CONFIG_KEY:
            if not isinstance(value, str):
                raise InvalidArgument("load parameter 'config' must be a JSON text")
            config = value
        elif key.startswith(FILE_PREFIX):
            files[key.removeprefix(FILE_PREFIX)] = _file_bytes(key, value)
        else:
            raise InvalidArgument(f"unrecognized load parameter '{key}'.")
    return LoadParameters(config, files or None)


def _file_bytes(key: str, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise InvalidArgument(f"load parameter '{key}' is not base64: {error}") from error
    raise InvalidArgument(f"load parameter '{key}' must be bytes")


def write_override(parameters: LoadParameters, overrides_directory: Path) -> LoadOverride | None:
    """Puts given files into a fresh private directory; nothing is written when a path is refused."""
    if parameters.empty:
        return None
    if not parameters.files:
        return LoadOverride(parameters.config_json or "")
    if parameters.config_json is None:
        raise InvalidArgument("Load parameter 'config' must be specified for model file override")
    directory = overrides_directory / secrets.token_hex(8)
    targets: dict[Path, bytes] = {}
    for name, content in parameters.files.items():
        try:
            targets[resolve_inside(directory, name)] = content
        except OutsideRoot as error:
            raise InvalidArgument(
                f"Invalid file parameter '{name[:256]}': it must stay within model directory. {error}"
            ) from error
    directory.mkdir(parents=True)
    for path, content in targets.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise InvalidArgument(f"file '{path.name}' can not be written: {error}") from error
    return LoadOverride(parameters.config_json, directory)
