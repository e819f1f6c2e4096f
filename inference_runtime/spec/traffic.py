"""Traffic tables: which share of a model's unnamed-version requests goes to which version.

A table is replaced whole and carries a generation. Shares live in 10,000 buckets, as half-open
ranges with the canary's first: raising its weight only ever adds units to the canary, so a caller
that has met the new version keeps meeting it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from inference_runtime.errors import InvalidArgument
from inference_runtime.spec.layout import is_plain_name

BUCKETS = 10_000
ROLES = ("canary", "stable")  # in the order of their ranges
_MAX_ARMS = 64
_MAX_SALT = 256


@dataclass(frozen=True, slots=True)
class TrafficArm:
    model: str  # the repository model, which need not be the table's own name
    version: int
    role: str
    weight_buckets: int

    @property
    def weight(self) -> float:
        return self.weight_buckets / BUCKETS


@dataclass(frozen=True, slots=True)
class TrafficTable:
    model: str
    generation: int
    salt: str
    unit_header: str  # lower case; "": every request is a unit of its own
    arms: tuple[TrafficArm, ...]

    def ranges(self) -> tuple[tuple[int, TrafficArm], ...]:
        """(exclusive upper bucket, arm), ascending; arms without weight have no range."""
        bounds: list[tuple[int, TrafficArm]] = []
        upper = 0
        for arm in sorted(self.arms, key=lambda arm: ROLES.index(arm.role)):
            if arm.weight_buckets:
                upper += arm.weight_buckets
                bounds.append((upper, arm))
        return tuple(bounds)


def bucket_of(salt: str, unit: str) -> int:
    """Where a unit falls, 0..9999: the same for every runtime that has the same salt."""
    data = unit.encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(data, digest_size=8, key=_key(salt))
    return int.from_bytes(digest.digest(), "big") % BUCKETS


@lru_cache(maxsize=256)
def _key(salt: str) -> bytes:
    """Salts of any length, as the hash takes keys of up to 64 bytes."""
    return hashlib.blake2b(salt.encode("utf-8", "surrogateescape"), digest_size=32).digest()


def table_body(table: TrafficTable) -> dict[str, Any]:
    """The JSON form, as `GET /v2/switchyard/traffic/{model}` answers it."""
    return {
        "model": table.model,
        "generation": table.generation,
        "salt": table.salt,
        "unit_header": table.unit_header,
        "arms": [
            {"model": arm.model, "version": arm.version, "role": arm.role, "weight": arm.weight}
            for arm in table.arms
        ],
    }


def read_table(model: str, body: Any) -> TrafficTable:
    """A table from its JSON form, checked; raises InvalidArgument with what is wrong."""
    if not isinstance(body, Mapping):
        raise InvalidArgument("a traffic table must be a JSON object")
    if not is_plain_name(model):
        raise InvalidArgument(f"'{model[:64]}' can not be the name of a model")
    named = body.get("model", model)
    if named != model:
        raise InvalidArgument(f"the table is for model '{named}', the path names '{model}'")
    arms = body.get("arms")
    if not isinstance(arms, list) or not 0 < len(arms) <= _MAX_ARMS:
        raise InvalidArgument(f"'arms' must be a list of 1 to {_MAX_ARMS} arms")
    table = TrafficTable(
        model=model,
        generation=_integer(body, "generation", minimum=1),
        salt=_text(body, "salt", _MAX_SALT),
        unit_header=_text(body, "unit_header", _MAX_SALT).lower(),
        arms=tuple(_arm(model, index, arm) for index, arm in enumerate(arms)),
    )
    _check_shares(table)
    return table


def _arm(model: str, index: int, arm: Any) -> TrafficArm:
    if not isinstance(arm, Mapping):
        raise InvalidArgument(f"arm {index} must be a JSON object")
    role = arm.get("role")
    if role not in ROLES:
        raise InvalidArgument(f"the role of arm {index} must be 'stable' or 'canary'")
    weight = arm.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise InvalidArgument(f"the weight of arm {index} must be a number from 0 to 1")
    buckets = round(weight * BUCKETS)
    if abs(weight * BUCKETS - buckets) > 1e-6:
        raise InvalidArgument(f"the weight of arm {index} is finer than 0.0001")
    return TrafficArm(
        model=_text(arm, "model", _MAX_SALT) or model,
        version=_integer(arm, "version", minimum=1),
        role=role,
        weight_buckets=buckets,
    )


def _check_shares(table: TrafficTable) -> None:
    total = sum(arm.weight_buckets for arm in table.arms)
    if total != BUCKETS:
        raise InvalidArgument(f"the weights of the arms must sum to 1, got {total / BUCKETS:g}")
    targets = [(arm.model, arm.version) for arm in table.arms]
    if len(set(targets)) != len(targets):
        raise InvalidArgument("a version can be only one arm of a table")


def _text(body: Mapping[str, Any], key: str, limit: int) -> str:
    value = body.get(key, "")
    if not isinstance(value, str) or len(value) > limit:
        raise InvalidArgument(f"'{key}' must be a string of at most {limit} characters")
    return value


def _integer(body: Mapping[str, Any], key: str, *, minimum: int) -> int:
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value < 2**63:
        raise InvalidArgument(f"'{key}' must be an integer of at least {minimum}")
    return value
