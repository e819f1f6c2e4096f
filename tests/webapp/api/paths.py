"""Addresses of things that may be there, for every path the API describes, and what is stored."""

import re

from django.apps import apps

_NAMES = {
    "number": "2",
    "alias": "champion",
    "stage": "staging",
    "username": "vic",
    "token_id": "1",
    "job_id": "op_none",
    "run_id": "bm_none",
    "rollout_id": "ro_none",
    "upload_id": "up_none",
}


def filled(path: str, **names: str) -> str:
    """The path with its variables: those given, else names of things that may or may not be there."""
    known = {**_NAMES, "name": "edge-1" if "/runtimes/" in path else "resnet50", **names}
    return re.sub(r"\{(\w+)\}", lambda match: known[match[1]], path)


def snapshot() -> dict[str, int]:
    """Rows of every table."""
    return {model._meta.label: model._default_manager.count() for model in apps.get_models()}
