"""What templates say about versions: the state of their checks, shapes, why one was rejected."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template

from webapp.catalog.choices import CheckStatus, VersionState
from webapp.catalog.inspection.names import NOT_REACHED, TITLES
from webapp.catalog.models import ModelVersion
from webapp.catalog.selectors import rejection_of
from webapp.catalog.tensors import shape_words

register = template.Library()


@register.simple_tag
def check_summary(version: ModelVersion, checks: Sequence[Mapping[str, str]]) -> str:
    """One sentence: how far the checks are, or how they ended."""
    done = [row for row in checks if row["status"] not in ("waiting", "running")]
    if version.state == VersionState.QUARANTINED:
        return "Waiting for a worker to begin the checks."
    if version.state == VersionState.VALIDATING:
        running = next((row["title"] for row in checks if row["status"] == "running"), "")
        now = f"; now {running}" if running else ""
        return f"{len(done)} of {len(checks)} checks done{now}."
    if version.state == VersionState.REJECTED:
        return "Rejected. Nothing was published and the uploaded bytes are deleted."
    return _passed_summary(checks)


@register.filter
def rejection(version: ModelVersion) -> dict[str, str] | None:
    """The failed check of a rejected version, with its title."""
    problem = rejection_of(version=version)
    return None if problem is None else {**problem, "title": TITLES[problem["name"]]}


@register.filter
def reached(checks: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """All but those that an earlier failure kept from being run."""
    return [row for row in checks if not _is_unreached(row)]


@register.filter
def unreached(checks: Sequence[Mapping[str, str]]) -> list[str]:
    """Titles of those."""
    return [row["title"] for row in checks if _is_unreached(row)]


@register.filter
def shape(tensor: Mapping[str, Any]) -> str:
    """`[any, 3, 224, 224]`: people read "any" faster than -1."""
    return shape_words(tensor["shape"])


def _is_unreached(row: Mapping[str, str]) -> bool:
    return row["status"] == CheckStatus.SKIPPED and row["detail"].startswith(NOT_REACHED)


def _passed_summary(checks: Sequence[Mapping[str, str]]) -> str:
    counts = {
        status: sum(row["status"] == status for row in checks)
        for status in ("passed", "warned", "failed", "skipped")
    }
    words = [f"{count} {status}" for status, count in counts.items() if count]
    return f"{', '.join(words)}." if words else "No checks are recorded."
