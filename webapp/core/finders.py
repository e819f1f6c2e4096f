"""Static files that live inside installed packages, so that nothing is copied into this repository."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

# URL below static/ → (package, path inside it)
_FILES: dict[str, tuple[str, str]] = {
    "vendor/plotly.min.js": ("plotly", "package_data/plotly.min.js"),
    "vendor/htmx.min.js": ("django_htmx", "static/django_htmx/htmx-2.min.js"),
}


class PackageFilesFinder(BaseFinder):
    """Offers the files of `_FILES`; finds packages without importing them."""

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        found = _location(path)
        if find_all:
            return [str(found)] if found else []
        return str(found) if found else []

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        for url in _FILES:
            if found := _location(url):
                storage = _Renamed(url, found)
                yield url, storage


class _Renamed(FileSystemStorage):
    """One file under another name."""

    def __init__(self, url: str, file: Path) -> None:
        super().__init__(location=str(file.parent))
        self.prefix = ""
        self._url = url
        self._file = file

    def path(self, name: str) -> str:
        return str(self._file) if name == self._url else super().path(name)


def _location(url: str) -> Path | None:
    if url not in _FILES:
        return None
    package, inside = _FILES[url]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / inside
    return file if file.is_file() else None
