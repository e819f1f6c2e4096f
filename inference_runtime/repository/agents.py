"""Repository agents of a config: what has to hold of a model's files before they are loaded. Blocking."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inference_runtime.errors import Internal, InvalidArgument
from inference_runtime.spec.layout import OutsideRoot, resolve_inside

_MD5 = "MD5"


def run_agents(proto: Any, directory: Path) -> None:
    """In the order of the config; raises the RuntimeFault of the first that objects."""
    for entry in proto.model_repository_agents.agents:
        agent = _AGENTS.get(entry.name)
        if agent is None:
            raise InvalidArgument(
                f"unable to find 'libtritonrepoagent_{entry.name}.so' for repo agent '{entry.name}'"
            )
        agent(entry.parameters, directory)


def _checksum(parameters: Mapping[str, str], directory: Path) -> None:
    """`MD5:<path below the model>` → the digest that the file must have, in hexadecimal."""
    for key, expected in parameters.items():
        kind, colon, path = key.partition(":")
        if not colon or kind != _MD5:
            raise InvalidArgument(
                f"repo agent 'checksum' expects parameters 'MD5:<relative path>', got '{key}'"
            )
        found = _md5(directory, path)
        if found != expected.lower():
            raise Internal(
                f"Mismatched MD5 hash for file {directory / path}, expect: {expected}, got: {found}"
            )


def _md5(directory: Path, path: str) -> str:
    try:
        with resolve_inside(directory, path, follow_links=True).open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except (OutsideRoot, OSError) as error:
        raise InvalidArgument(f"repo agent 'checksum' can not read '{path}': {error}") from error


_AGENTS: Mapping[str, Callable[[Mapping[str, str], Path], None]] = {"checksum": _checksum}
