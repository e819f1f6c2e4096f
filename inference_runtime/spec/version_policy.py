"""Which version directories are served: the latest n, all, or those listed."""

from collections.abc import Sequence
from typing import Any


def chosen_versions(proto: Any, available: Sequence[int]) -> tuple[int, ...]:
    """`proto` is a ModelConfig; versions ascending. Listed versions that do not exist are left out."""
    policy = proto.version_policy
    choice = policy.WhichOneof("policy_choice")
    ordered = sorted(available)
    if choice == "all":
        return tuple(ordered)
    if choice == "specific":
        wanted = set(policy.specific.versions)
        return tuple(version for version in ordered if version in wanted)
    count = policy.latest.num_versions if choice == "latest" else 1
    return tuple(ordered[-max(count, 1) :])


def missing_versions(proto: Any, available: Sequence[int]) -> tuple[int, ...]:
    """Versions a `specific` policy lists that have no directory."""
    if proto.version_policy.WhichOneof("policy_choice") != "specific":
        return ()
    return tuple(sorted(set(proto.version_policy.specific.versions) - set(available)))
