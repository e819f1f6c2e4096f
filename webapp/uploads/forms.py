"""Reads the multipart form of a one-shot upload: `file`, `config`, `samples`, `sha256`, `note`."""

from collections.abc import Mapping
from typing import Any

from django.core.files.uploadedfile import UploadedFile

from webapp.core.errors import InvalidInput, TooLarge
from webapp.uploads.services import Details

_MOST_CONFIG_BYTES = 1024 * 1024


def files_of(files: Mapping[str, Any]) -> "tuple[UploadedFile[Any], UploadedFile[Any] | None]":
    file = files.get("file")
    if not isinstance(file, UploadedFile):
        raise InvalidInput(
            "There is no file in the form.",
            reason="FILE_MISSING",
            help_text='Send multipart/form-data with a part named "file": curl -F file=@model.onnx …',
            errors=[{"pointer": "/file", "detail": "is required"}],
        )
    samples = files.get("samples")
    return file, samples if isinstance(samples, UploadedFile) and samples.size else None


def details_of(fields: Mapping[str, Any], files: Mapping[str, Any]) -> Details:
    """`config` may be a file or plain text."""
    file = files["file"]
    return Details(
        file_name=file.name or "model.onnx",
        sha256=_text(fields, "sha256"),
        config_text=_config(files.get("config"), _text(fields, "config")),
        note=_text(fields, "note"),
    )


def _config(file: Any, text: str) -> str:
    if not isinstance(file, UploadedFile):
        return text
    if (file.size or 0) > _MOST_CONFIG_BYTES:
        raise TooLarge("config.pbtxt is larger than 1 MiB.", reason="CONFIG_TOO_LARGE")
    try:
        return str(file.read(), "utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(
            "config.pbtxt is not UTF-8 text.",
            reason="BAD_CONFIG",
            help_text="Save it as UTF-8 and upload again.",
        ) from None


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""
