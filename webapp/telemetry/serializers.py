"""What telemetry looks like in the API and in live frames."""

from typing import Any

from webapp.telemetry.models import EventMark
from webapp.telemetry.selectors import SHARES_SECONDS


def traffic_body(state: dict[str, Any], observed: dict[int, float]) -> dict[str, Any]:
    """`observed` is null, not 0, while there is no traffic to observe."""
    arms = [
        {**arm, "observed": observed.get(arm["version"], 0.0) if observed else None}
        for arm in state["arms"]
    ]
    return {**state, "arms": arms, "observed_seconds": SHARES_SECONDS}


def mark_body(mark: EventMark) -> dict[str, Any]:
    return {
        "id": mark.id,
        "at": mark.at.isoformat(),
        "kind": mark.kind,
        "text": mark.text,
        "model": mark.model_name,
        "runtime": mark.runtime_name,
    }
