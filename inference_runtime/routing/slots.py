"""The slots extension: the pools of the rate limiter as JSON, and new capacities read from it."""

from collections.abc import Iterable
from typing import Any

from inference_runtime.errors import InvalidArgument, Unsupported
from inference_runtime.scheduling.rate_limiter import RateLimiter
from inference_runtime.scheduling.resource_pools import Pool, PoolUse
from inference_runtime.telemetry.snapshot import SlotPool

EXTENSION = "switchyard_slots"
_OFF = "the rate limiter is off: start the server with --rate-limit=execution_count"
_MOST = 2**32 - 1  # as much as a config can ask for


class Slots:
    """The limiter as the extension shows it; without one every call says that it is off."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        self._limiter = limiter

    @property
    def extensions(self) -> tuple[str, ...]:
        return (EXTENSION,) if self._limiter is not None else ()

    def body(self) -> dict[str, Any]:
        return {"pools": [_pool_body(use) for use in self._on().use()]}

    def change(self, body: Any) -> dict[str, Any]:
        """Sets the capacities that are named, all of them or none; the others stay."""
        self._on().change(read_capacities(body))
        return self.body()

    def readings(self) -> Iterable[SlotPool]:
        if self._limiter is None:
            return
        for use in self._limiter.use():
            yield SlotPool(use.pool.name, use.pool.device, use.capacity, use.in_use, use.waiting)

    def _on(self) -> RateLimiter:
        if self._limiter is None:
            raise Unsupported(_OFF)
        return self._limiter


def read_capacities(body: Any) -> dict[Pool, int | None]:
    entries = body.get("pools") if isinstance(body, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InvalidArgument("'pools' must be a list of pools, each with its capacity")
    capacities: dict[Pool, int | None] = {}
    for entry in entries:
        pool, capacity = _read_pool(entry)
        if pool in capacities:
            raise InvalidArgument(f"pool '{pool.name}' of device '{pool.device}' is named twice")
        capacities[pool] = capacity
    return capacities


def _read_pool(entry: Any) -> tuple[Pool, int | None]:
    if not isinstance(entry, dict) or "capacity" not in entry:
        raise InvalidArgument("a pool must be an object with 'name', 'device' and 'capacity'")
    name, device, capacity = (entry.get(key) for key in ("name", "device", "capacity"))
    if not isinstance(name, str) or not isinstance(device, str):
        raise InvalidArgument("'name' and 'device' of a pool must be strings")
    # bool is an int to Python, and no number to anybody else.
    whole = type(capacity) is int and 0 <= capacity <= _MOST
    if capacity is not None and not whole:
        raise InvalidArgument(f"'capacity' of pool '{name}' must be a whole number or null")
    return Pool(name, device), capacity


def _pool_body(use: PoolUse) -> dict[str, Any]:
    return {
        "name": use.pool.name,
        "device": use.pool.device,
        "capacity": use.capacity,
        "in_use": use.in_use,
        "waiting": use.waiting,
        "holders": [
            {
                "model": holder.model,
                "version": holder.version,
                "instance": holder.instance,
                "count": holder.needs[use.pool],
            }
            for holder in use.holders
        ],
    }
