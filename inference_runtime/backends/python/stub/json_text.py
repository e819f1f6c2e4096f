"""JSON that any reader takes: half a character, which Python's strings may hold, becomes a question mark."""

import json
from typing import Any


def dumps(value: Any) -> str:
    text = json.dumps(value)
    if "\\ud" not in text:
        return text
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
