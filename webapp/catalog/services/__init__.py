"""Writes of the catalogue."""

from webapp.catalog.services.inspection import version_inspect, version_lost
from webapp.catalog.services.pointers import alias_delete, alias_set, stage_switch
from webapp.catalog.services.registry import (
    model_delete,
    model_delete_check,
    model_register,
    model_update,
)
from webapp.catalog.services.sweeping import catalog_sweep
from webapp.catalog.services.versions import (
    upload_complete,
    version_archive,
    version_create,
    version_recheck,
    version_restore,
    version_update,
)

__all__ = [
    "alias_delete",
    "alias_set",
    "catalog_sweep",
    "model_delete",
    "model_delete_check",
    "model_register",
    "model_update",
    "stage_switch",
    "upload_complete",
    "version_archive",
    "version_create",
    "version_inspect",
    "version_lost",
    "version_recheck",
    "version_restore",
    "version_update",
]
