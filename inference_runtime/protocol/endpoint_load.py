"""How full a model's key-value cache is, as a header of an answer: for gateways that balance by it (ORCA)."""

from collections.abc import Mapping
from typing import Final

import orjson

FORMAT: Final = "endpoint-load-metrics-format"  # the header that asks for it
NAME: Final = b"endpoint-load-metrics"


def header_value(format_: str, blocks: Mapping[str, float]) -> bytes:
    """`blocks`: counts by kind; b"" where one is missing or the format is neither json nor text."""
    if not blocks.keys() >= {"tokens_per", "used", "max"} or not blocks["max"] > 0:
        return b""
    used, most = blocks["used"], blocks["max"]
    named = {
        "kv_cache_utilization": used / most,
        "max_token_capacity": round(most * blocks["tokens_per"]),
    }
    match format_.strip().lower():
        case "json":
            return b"JSON " + orjson.dumps({"named_metrics": named})
        case "text":
            entries = [f"named_metrics.{name}={value}" for name, value in named.items()]
            return b"TEXT " + ", ".join(entries).encode()
        case _:
            return b""
