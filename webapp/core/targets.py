"""API paths, as jobs and the audit log keep them, in people's words and with the page to look at."""

import re

from django.urls import Resolver404, resolve

_NAMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"{pattern}\Z"), words)
    for pattern, words in (
        (r"models/([^/]+)", "{0}"),
        (r"models/([^/]+)/versions/(\d+)", "{0} v{1}"),
        (r"models/([^/]+)/rollouts/[^/]+", "rollout of {0}"),
        (r"models/([^/]+)/serving-config", "serving config of {0}"),
        (r"models/([^/]+)/traffic", "traffic of {0}"),
        (r"models/([^/]+)/stages/([^/]+)", "{1} of {0}"),
        (r"models/([^/]+)/aliases/([^/]+)", "alias {1} of {0}"),
        (r"runtimes/([^/]+)", "runtime {0}"),
        (r"benchmarks/([^/]+)", "benchmark {0}"),
        (r"operations/([^/]+)", "job {0}"),
        (r"uploads/([^/]+)", "upload {0}"),
        (r"people/([^/]+)", "{0}"),
        (r"tokens/([^/]+)", "token {0}"),
    )
)


def name_of(target: str) -> str:
    """`models/resnet50/versions/3` is resnet50 v3; a path of no known form stays as it is."""
    path = _path(target)
    for pattern, words in _NAMES:
        if found := pattern.match(path):
            return words.format(*found.groups())
    return target


def page_of(target: str) -> str:
    """The page that shows it, or else the nearest thing above it; "" when there is none."""
    parts = _path(target).split("/")
    if parts[0] == "operations":
        parts[0] = "jobs"
    while parts and parts[0]:
        candidate = f"/{'/'.join(parts)}/"
        try:
            resolve(candidate)
        except Resolver404:
            parts.pop()
        else:
            return candidate
    return ""


def _path(target: str) -> str:
    return target.strip("/").removeprefix("api/v1/")
