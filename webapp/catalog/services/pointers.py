"""Names that point at versions: stages and aliases. Each is one row, switched in one transaction."""

from django.db import transaction

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.catalog import hooks
from webapp.catalog.choices import UNDECIDED_STATES, Stage, VersionState
from webapp.catalog.models import Alias, InferenceModel, ModelVersion, Promotion, StagePointer
from webapp.catalog.selectors import alias_get
from webapp.core.errors import Conflict, InvalidInput, PreconditionFailed
from webapp.uploads.names import name_check

# Not given: the caller does not mind what the stage points at now. None: it must point at nothing.
ANY = -1
_ALIAS_LENGTH = 60


def stage_switch(
    *,
    model: InferenceModel,
    stage: str,
    version: ModelVersion,
    actor: User | None,
    reason: str,
    expected: int | None = ANY,
) -> Promotion:
    """Points the stage at the version and logs it. `actor` None: Switchyard itself.

    `expected` is the version number the caller believes is current.
    """
    if actor is not None:
        require(actor=actor, action=Action.MANAGE_MODELS)
    if stage not in Stage.values:
        raise InvalidInput(
            f"There is no stage {stage!r}.",
            reason="NO_SUCH_STAGE",
            help_text=f"Stages are {', '.join(Stage.values)}; use an alias for other names.",
        )
    with transaction.atomic():
        InferenceModel.objects.select_for_update().get(pk=model.pk)
        _check_target(model, version)
        pointer = (
            StagePointer.objects.select_related("version").filter(model=model, stage=stage).first()
        )
        before = pointer.version if pointer else None
        _check_expected(model, stage, before, expected)
        _check_guards(stage, version)
        StagePointer.objects.update_or_create(
            model=model, stage=stage, defaults={"version": version}
        )
        promotion = Promotion.objects.create(
            model=model,
            stage=stage,
            from_version=before,
            to_version=version,
            by=actor,
            reason=reason[:300],
        )
        audit_record(
            actor=actor,
            action="stage.switch",
            target=f"models/{model.name}/stages/{stage}",
            before={"version": before.number if before else None},
            after={"version": version.number},
            note=reason,
        )
    return promotion


def alias_set(*, model: InferenceModel, name: str, version: ModelVersion, actor: User) -> Alias:
    require(actor=actor, action=Action.MANAGE_MODELS)
    name_check(name, field="alias", longest=_ALIAS_LENGTH)
    if name in Stage.values or name.isdecimal():
        raise InvalidInput(
            f"{name!r} cannot be an alias: it would read as a stage or a version number.",
            reason="BAD_NAME",
            help_text="Choose a word such as 'champion'.",
        )
    with transaction.atomic():
        InferenceModel.objects.select_for_update().get(pk=model.pk)
        _check_target(model, version)
        known = Alias.objects.select_related("version").filter(model=model, name=name).first()
        alias, _ = Alias.objects.update_or_create(
            model=model, name=name, defaults={"version": version}
        )
        audit_record(
            actor=actor,
            action="alias.set",
            target=f"models/{model.name}/aliases/{name}",
            before={"version": known.version.number if known else None},
            after={"version": version.number},
        )
    return alias


def alias_delete(*, model: InferenceModel, name: str, actor: User) -> None:
    require(actor=actor, action=Action.MANAGE_MODELS)
    alias = alias_get(model=model, name=name)
    with transaction.atomic():
        alias.delete()
        audit_record(
            actor=actor,
            action="alias.delete",
            target=f"models/{model.name}/aliases/{name}",
            before={"version": alias.version.number},
        )


def _check_target(model: InferenceModel, version: ModelVersion) -> None:
    version.refresh_from_db(fields=["state"])
    if version.model_id != model.pk or version.state != VersionState.READY:
        raise Conflict(
            f"Version {version.number} is {version.state}; only a READY version of {model.name} "
            "can have a name pointing at it.",
            reason="VERSION_NOT_READY",
            help_text="Choose a READY version, or restore an archived one.",
            retryable=version.state in UNDECIDED_STATES,
        )


def _check_guards(stage: str, version: ModelVersion) -> None:
    found = hooks.objection(stage, version)
    if found is not None:
        raise Conflict(found.detail, reason=found.reason, help_text=found.fix)


def _check_expected(
    model: InferenceModel, stage: str, before: ModelVersion | None, expected: int | None
) -> None:
    current = before.number if before else None
    if expected in (ANY, current):
        return
    last = Promotion.objects.filter(model=model, stage=stage).select_related("by").first()
    raise PreconditionFailed(
        f"{stage} of {model.name} points at {current or 'nothing'}, not at {expected or 'nothing'}.",
        reason="STAGE_MOVED",
        help_text="Look at the promotions, then repeat with the current version.",
        current_version=current,
        changed_by=last.by.get_username() if last and last.by else None,
    )
