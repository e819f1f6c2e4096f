"""Reads of the serving config: what was asked for, what is in force, what a runtime would be given."""

from collections.abc import Sequence

from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.serving.config_composer import Artifact, ComposedConfig, base_values, compose
from webapp.serving.config_values import ConfigProblem, ServingValues, read_values
from webapp.serving.models import Deployment, LoadedConfig, Runtime, ServingConfig


def serving_config_row(*, model: InferenceModel) -> ServingConfig | None:
    return ServingConfig.objects.filter(model=model).first()


def row_values(*, row: ServingConfig) -> ServingValues:
    """What was asked for last."""
    return ServingValues(
        instance_count=row.instance_count,
        max_batch_size=row.max_batch_size,
        dynamic_batching=row.dynamic_batching,
        preferred_batch_sizes=tuple(row.preferred_batch_sizes),
        max_queue_delay_microseconds=row.max_queue_delay_microseconds,
        max_queue_size=row.max_queue_size,
        default_timeout_microseconds=row.default_timeout_microseconds,
    )


def values_in_force(*, model: InferenceModel) -> ServingValues | None:
    """What runtimes are loaded with; None when uploaded configs are used as they are."""
    row = serving_config_row(model=model)
    return read_values(row.applied) if row is not None and row.applied is not None else None


def values_asked(*, model: InferenceModel) -> ServingValues:
    """What a form starts with: the last edit, or what the uploaded config says."""
    row = serving_config_row(model=model)
    if row is not None:
        return row_values(row=row)
    try:
        return base_values(artifact_of(model=model, versions=config_versions(model=model)))
    except ConfigProblem:
        return ServingValues()


def config_versions(*, model: InferenceModel, runtime: Runtime | None = None) -> list[int]:
    """The versions a config is for: those loaded, else those wanted, else the newest there is."""
    loaded = LoadedConfig.objects.filter(model=model)
    if runtime is not None:
        loaded = loaded.filter(runtime=runtime)
    numbers = {number for row in loaded for number in row.versions}
    if numbers:
        return sorted(numbers)
    rows = Deployment.objects.filter(version__model=model, wanted=True)
    if runtime is not None:
        rows = rows.filter(runtime=runtime)
    wanted = sorted(set(rows.values_list("version__number", flat=True)))
    if wanted:
        return wanted
    newest = (
        ModelVersion.objects.filter(model=model, state=VersionState.READY)
        .order_by("-number")
        .values_list("number", flat=True)
        .first()
    )
    return [newest] if newest is not None else []


def artifact_of(*, model: InferenceModel, versions: Sequence[int]) -> Artifact:
    rows = ModelVersion.objects.filter(model=model, number__in=versions)
    return artifact_from(rows=list(rows))


def artifact_from(*, rows: Sequence[ModelVersion]) -> Artifact:
    """Inputs and outputs of the newest of the versions; the config of the newest that brought one.

    A repository model has one config for all its versions, so a version uploaded without a config
    goes on with the one before it.
    """
    newest_first = sorted(rows, key=lambda row: row.number, reverse=True)
    if not newest_first:
        return Artifact()
    return Artifact(
        config_text=next((row.config_text for row in newest_first if row.config_text.strip()), ""),
        inputs=newest_first[0].inputs,
        outputs=newest_first[0].outputs,
    )


def config_for(
    *, model: InferenceModel, versions: Sequence[int], values: ServingValues | None
) -> ComposedConfig:
    """Raises ConfigProblem."""
    return compose(
        model=model.name,
        artifact=artifact_of(model=model, versions=versions),
        versions=versions,
        values=values,
    )


def loaded_config(*, runtime: Runtime, model: InferenceModel) -> LoadedConfig | None:
    return LoadedConfig.objects.filter(runtime=runtime, model=model).first()


def config_in_effect(*, model: InferenceModel) -> str:
    """`config_in_force`, with what the runtime fills in where nobody edited the settings: as edited
    settings are written, so that the two can be compared line by line."""
    text = config_in_force(model=model)
    if not text or values_in_force(model=model) is not None:
        return text
    versions = config_versions(model=model)
    try:
        values = base_values(artifact_of(model=model, versions=versions))
        return config_for(model=model, versions=versions, values=values).text
    except ConfigProblem:
        return text


def config_in_force(*, model: InferenceModel) -> str:
    """The config.pbtxt the embedded runtime has, else that of any other; "" when none is loaded."""
    row = (
        LoadedConfig.objects.filter(model=model)
        .exclude(text="")
        .order_by("-runtime__embedded", "runtime__name")
        .first()
    )
    return row.text if row is not None else ""
