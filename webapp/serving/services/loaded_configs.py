"""The config that a runtime has of a model, the last one that it refused, and the audit rows of both."""

import logging

from django.utils import timezone

from webapp.audit.services import audit_record
from webapp.catalog import repository_writer
from webapp.catalog.models import InferenceModel
from webapp.serving.models import LoadedConfig, Runtime
from webapp.serving.selectors import loaded_config
from webapp.serving.services.marking import retry_moment

logger = logging.getLogger(__name__)


def loaded_config_keep(
    *, runtime: Runtime, model: InferenceModel, text: str, versions: tuple[int, ...]
) -> None:
    """After a load that the runtime took."""
    LoadedConfig.objects.update_or_create(
        runtime=runtime,
        model=model,
        defaults={
            "text": text,
            "versions": list(versions),
            "loaded_at": timezone.now(),
            "refused_text": "",
            "error": "",
            "failed_loads": 0,
            "retry_at": None,
        },
    )
    if runtime.embedded:
        # Written once the runtime took it: the repository never holds a config that fails.
        try:
            repository_writer.write_config(model.name, text)
        except OSError as error:
            logger.error("config.pbtxt of %s not written: %s", model.name, error)


def loaded_config_replaced(*, runtime: Runtime, model: InferenceModel, text: str) -> None:
    """No version is new: the runtime was behind with its config, or had one version too many."""
    row = loaded_config(runtime=runtime, model=model)
    if row is None or row.text == text:
        return
    _audit("serving_config.reload", runtime, model, before=row.text, after=text)


def loaded_config_refused(
    *, runtime: Runtime, model: InferenceModel, text: str, error: str
) -> None:
    """The runtime goes on with the one it has."""
    row = loaded_config(runtime=runtime, model=model)
    failed = row.failed_loads + 1 if row is not None else 1
    in_force = row.text if row is not None else ""
    _audit("serving_config.refuse", runtime, model, before=in_force, after=in_force, note=error)
    LoadedConfig.objects.update_or_create(
        runtime=runtime,
        model=model,
        defaults={
            "refused_text": text,
            "error": error[:1000],
            "failed_loads": failed,
            "retry_at": retry_moment(failed_loads=failed, now=timezone.now()),
        },
    )


def loaded_config_forget(*, runtime: Runtime, model: InferenceModel) -> None:
    LoadedConfig.objects.filter(runtime=runtime, model=model).delete()


def _audit(
    action: str,
    runtime: Runtime,
    model: InferenceModel,
    *,
    before: str,
    after: str,
    note: str = "",
) -> None:
    audit_record(
        actor=None,
        action=action,
        target=f"models/{model.name}/serving-config",
        before={"runtime": runtime.name, "config": before},
        after={"runtime": runtime.name, "config": after},
        note=note,
    )
