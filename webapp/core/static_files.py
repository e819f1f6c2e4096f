"""Static files straight from their source folders: one answer for WSGI and ASGI, and URLs that change
with the file, so that browsers may keep them."""

from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise, answering in one piece: its file iterators are synchronous, which ASGI warns of
    and reads whole anyway. The largest file is Plotly, 5 MB."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        response = HttpResponse(content, status=int(found.status))
        del response["content-type"]  # the one of the file is among its headers
        for name, value in found.headers:
            response[name] = value
        return response


class VersionedStorage(StaticFilesStorage):
    """`{% static "css/base.css" %}` → /static/css/base.css?v=1a2b3c4d."""

    def url(self, name: str | None) -> str:
        address = super().url(name)
        version = _version(name) if name else ""
        return f"{address}?v={version}" if version else address


@lru_cache(maxsize=500)
def _version(name: str) -> str:
    found = finders.find(name)
    if not isinstance(found, str):
        return ""
    stat = Path(found).stat()
    return f"{crc32(f'{stat.st_mtime_ns} {stat.st_size}'.encode()):08x}"
