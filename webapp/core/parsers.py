"""Reads JSON bodies: bounded in size and depth, refusing what is not JSON."""

from collections.abc import Mapping
from typing import IO, Any

import orjson
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser


class JsonParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise RequestDataTooBig(f"A JSON body has at most {limit} bytes.")
        try:
            return orjson.loads(raw) if raw.strip() else {}
        except orjson.JSONDecodeError as error:
            raise ParseError(f"The body is not JSON: {error}") from None
