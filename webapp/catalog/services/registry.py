"""Models: register, describe, delete."""

from django.db import IntegrityError, transaction

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.catalog import repository_writer
from webapp.catalog.choices import UNDECIDED_STATES
from webapp.catalog.models import (
    Alias,
    InferenceModel,
    ModelVersion,
    Promotion,
    StagePointer,
)
from webapp.catalog.selectors import deployed_versions
from webapp.core.errors import Conflict
from webapp.uploads.names import name_check
from webapp.uploads.services import bytes_remove


def model_register(*, name: str, actor: User, description: str = "") -> InferenceModel:
    require(actor=actor, action=Action.MANAGE_MODELS)
    name_check(name, field="name")
    _refuse_lookalike(name)
    try:
        with transaction.atomic():
            model = InferenceModel.objects.create(
                name=name, description=description[:10_000], created_by=actor
            )
            audit_record(
                actor=actor,
                action="model.register",
                target=f"models/{name}",
                after={"description": model.description},
            )
    except IntegrityError:
        raise Conflict(
            f"There is a model {name!r} already.",
            reason="MODEL_EXISTS",
            help_text="Upload a version to it, or choose another name.",
        ) from None
    return model


def model_update(*, model: InferenceModel, actor: User, description: str) -> InferenceModel:
    require(actor=actor, action=Action.MANAGE_MODELS)
    before = model.description
    model.description = description[:10_000]
    with transaction.atomic():
        model.save(update_fields=["description", "updated_at"])
        audit_record(
            actor=actor,
            action="model.update",
            target=f"models/{model.name}",
            before={"description": before},
            after={"description": model.description},
        )
    return model


def model_delete_check(*, model: InferenceModel, actor: User) -> list[int]:
    """The versions that would be deleted with the model, or why it cannot be deleted now."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    _refuse_in_use(model)
    numbers = ModelVersion.objects.filter(model=model).order_by("number")
    return list(numbers.values_list("number", flat=True))


def model_delete(*, model: InferenceModel, actor: User) -> None:
    """The model, its versions and their files. Refused while anything of it is deployed or checked."""
    require(actor=actor, action=Action.MANAGE_MODELS)
    with transaction.atomic():
        locked = InferenceModel.objects.select_for_update().get(pk=model.pk)
        _refuse_in_use(locked)
        versions = list(ModelVersion.objects.filter(model=locked))
        # Pointers protect the versions they point at, so they go first.
        StagePointer.objects.filter(model=locked).delete()
        Alias.objects.filter(model=locked).delete()
        Promotion.objects.filter(model=locked).delete()
        locked.delete()
        audit_record(
            actor=actor,
            action="model.delete",
            target=f"models/{model.name}",
            before={"versions": [version.number for version in versions]},
        )
        transaction.on_commit(lambda: repository_writer.model_discard(model_name=model.name))
    for version in versions:
        if version.upload_id:
            bytes_remove(upload_id=version.upload_id)


def _refuse_in_use(model: InferenceModel) -> None:
    deployed = deployed_versions(model=model)
    if deployed:
        raise Conflict(
            f"Version {', '.join(map(str, deployed))} of {model.name} is deployed.",
            reason="MODEL_DEPLOYED",
            help_text="Undeploy it first, then delete the model.",
        )
    if ModelVersion.objects.filter(model=model, state__in=UNDECIDED_STATES).exists():
        raise Conflict(
            f"A version of {model.name} is being checked.",
            reason="MODEL_BUSY",
            help_text="Wait for the checks, or cancel their operation.",
        )


def _refuse_lookalike(name: str) -> None:
    """Two models that differ by case only would be one directory on some disks, and one name to a reader."""
    other = InferenceModel.objects.filter(name__iexact=name).exclude(name=name).first()
    if other is not None:
        raise Conflict(
            f"There is a model {other.name!r}, which differs only in upper and lower case.",
            reason="MODEL_EXISTS",
            help_text=f"Use {other.name!r}, or a clearly different name.",
        )
