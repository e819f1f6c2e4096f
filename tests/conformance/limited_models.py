"""Identity models whose executions take a while and may need slots, as directories of a repository."""

from pathlib import Path
from typing import Any

from tests.conformance.clients import Client

_CONFIG = """
backend: "identity" max_batch_size: %d
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
parameters { key: "execute_delay_ms" value { string_value: "%s" } }
instance_group { count: %d kind: KIND_CPU rate_limiter { %s } }
%s
"""


def write_echo(
    repository: Path, name: str, *, delay_ms=0.0, instances=1, rows=8, needs="", more=""
) -> None:
    directory = repository / name
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "config.pbtxt").write_text(_CONFIG % (rows, delay_ms, instances, needs, more))


def need(name: str, count=1, *, everywhere=True, priority=1) -> str:
    """The text of a rate limiter that needs slots of one resource."""
    return (
        f'resources {{ name: "{name}" global: {str(everywhere).lower()} count: {count} }} '
        f"priority: {priority}"
    )


def statistics_of(client: Client, model: str) -> dict[str, Any]:
    """The model's entry of the statistics extension, its numbers as numbers."""
    (entry,) = client.names(client.get_inference_statistics(model))["model_stats"]
    return entry


def count_of(entry: dict[str, Any], name: str) -> int:
    """Of one of its durations; gRPC leaves out what is 0, and writes the rest as text."""
    return int(entry.get("inference_stats", {}).get(name, {}).get("count", 0))
