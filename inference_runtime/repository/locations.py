"""From what `--model-repository` says to the store behind it: a directory, S3 as Triton writes it, any fsspec URL."""

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inference_runtime.errors import InvalidArgument, Unsupported
from inference_runtime.repository.model_cache import ModelCache
from inference_runtime.repository.object_store import ObjectStore
from inference_runtime.repository.store import DirectoryStore, RepositoryStore

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
# s3://[http[s]://]host:port/bucket/prefix
_S3_HOST = re.compile(r"(https?://)?([0-9A-Za-z.\-]+:[0-9]{1,5})/(.+)", re.DOTALL)
_USER = re.compile(r"//[^/@]*@")
# Seconds, and how often again: a store that never answers is known to be away within a minute and a half.
_ANSWER_WITHIN = {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 1}}
_S3_TRIES = 2  # of s3fs, around those of its client
# Our words → those of Triton's credential file.
_S3_SECRETS = {
    "key": "key_id",
    "secret": "secret_key",
    "token": "session_token",
    "profile": "profile",
}


@dataclass(frozen=True, slots=True)
class Location:
    """Where a repository lies. `protocol` "": a directory; `shown` has no secrets in it."""

    shown: str
    protocol: str
    path: str
    options: Mapping[str, Any] = field(default_factory=dict)


# Scheme (`s3`) → URL prefix ("": any) → the words of Triton's credential file.
Credentials = Mapping[str, Mapping[str, Mapping[str, str]]]


def read_location(text: str, credentials: Credentials) -> Location:
    """Raises InvalidArgument for what can not be meant."""
    matched = _URL.fullmatch(text)
    if matched is None:
        return Location(str(Path(text)), "", text)
    protocol, path = matched.groups()
    shown = _USER.sub("//", text)
    if protocol == "file":
        return Location(path, "", path)
    if not path.strip("/") or "\0" in path:
        raise InvalidArgument(f"model repository '{shown}' names no place")
    if protocol != "s3":
        return Location(shown, protocol, path)
    options = _s3_options(_secrets(credentials.get("s3", {}), text))
    hosted = _S3_HOST.fullmatch(path)
    if hosted is not None:
        scheme, host, path = hosted.groups()
        options["endpoint_url"] = f"{scheme or 'http://'}{host}"
        options["config_kwargs"]["s3"] = {"addressing_style": "path"}
    elif "://" in path:
        raise InvalidArgument(f"model repository '{shown}' must name host, port and bucket")
    return Location(shown, protocol, path, options)


def open_store(location: Location, cache: ModelCache) -> RepositoryStore:
    """Nothing is asked of the store yet, but that there is code for it; raises Unsupported."""
    if not location.protocol:
        return DirectoryStore(Path(location.path))
    make = _filesystem_class(location)

    def open_filesystem() -> Any:
        opened = make(skip_instance_cache=True, use_listings_cache=False, **location.options)
        if location.protocol == "s3":
            opened.retries = _S3_TRIES
        return opened

    return ObjectStore(location.shown, location.path, open_filesystem, cache)


def open_stores(locations: Sequence[Location], cache: ModelCache) -> list[RepositoryStore]:
    return [open_store(location, cache) for location in locations]


def _filesystem_class(location: Location) -> Callable[..., Any]:
    try:
        fsspec = importlib.import_module("fsspec")
        found: Callable[..., Any] = fsspec.get_filesystem_class(location.protocol)
    except ImportError as error:
        raise Unsupported(
            f"model repository {location.shown} needs a Python package that is not installed "
            f"({error}): pip install -r requirements/s3.txt, or the fsspec package for "
            f"'{location.protocol}'"
        ) from error
    except ValueError as error:
        raise Unsupported(f"model repository {location.shown}: {error}") from error
    return found


def _secrets(by_prefix: Mapping[str, Mapping[str, str]], text: str) -> Mapping[str, str]:
    """Of the longest prefix that fits."""
    fitting = [prefix for prefix in by_prefix if text.startswith(prefix)]
    return by_prefix[max(fitting, key=len)] if fitting else {}


def _s3_options(secrets: Mapping[str, str]) -> dict[str, Any]:
    """What is not given here, botocore takes from AWS_ACCESS_KEY_ID and its like, as Triton does."""
    options: dict[str, Any] = {
        word: secrets[name] for word, name in _S3_SECRETS.items() if secrets.get(name)
    }
    if secrets.get("region"):
        options["client_kwargs"] = {"region_name": secrets["region"]}
    options["config_kwargs"] = dict(_ANSWER_WITHIN)
    return options


def read_credentials(path: Path) -> Credentials:
    """Triton's file of credentials: `{"s3": {"<URL prefix>": {"key_id": …, "secret_key": …}}}`."""
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"credential file {path} can not be read: {error}") from error
    entries = body.get("s3", {}) if isinstance(body, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        raise InvalidArgument(
            f"credential file {path} must map URL prefixes to credentials in 's3'"
        )
    words = {prefix: {k: str(v) for k, v in entry.items()} for prefix, entry in entries.items()}
    return {"s3": words}
