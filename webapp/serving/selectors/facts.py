"""All that is known of models on a runtime, read in a handful of queries however many there are."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from webapp.catalog.models import InferenceModel
from webapp.serving.config_composer import Artifact, ComposedConfig, compose
from webapp.serving.config_values import ServingValues, read_values
from webapp.serving.models import (
    Deployment,
    LoadedConfig,
    Runtime,
    ServingConfig,
    TrafficApplied,
    TrafficTable,
)
from webapp.serving.selectors.configs import artifact_from
from webapp.serving.selectors.deployments import GONE


@dataclass(frozen=True, slots=True)
class ModelFacts:
    model: InferenceModel
    deployments: list[Deployment]
    table: TrafficTable | None
    applied: TrafficApplied | None
    loaded: LoadedConfig | None
    values: ServingValues | None  # in force

    def artifact(self, versions: Sequence[int]) -> Artifact:
        rows = (row.version for row in self.deployments)
        return artifact_from(rows=[row for row in rows if row.number in versions])

    def config(self, versions: Sequence[int]) -> ComposedConfig:
        """What the runtime would be given for these versions. Raises ConfigProblem."""
        return compose(
            model=self.model.name,
            artifact=self.artifact(versions),
            versions=versions,
            values=self.values,
        )


def runtime_facts(*, runtime: Runtime, model: InferenceModel | None = None) -> list[ModelFacts]:
    """Of every model that is deployed here or whose traffic table is still here; or of one."""
    applied = {
        row.model_id: row
        for row in TrafficApplied.objects.filter(runtime=runtime)
        if row.generation or row.error
    }
    deployments = _deployments(runtime, model)
    wanted = Q(pk__in=deployments) | Q(
        pk__in=[key for key, row in applied.items() if row.generation]
    )
    models = InferenceModel.objects.filter(wanted if model is None else Q(pk=model.pk))
    keys = [one.pk for one in models]
    tables = {row.model_id: row for row in TrafficTable.objects.filter(model_id__in=keys)}
    loaded = {
        row.model_id: row for row in LoadedConfig.objects.filter(runtime=runtime, model_id__in=keys)
    }
    values = {
        row.model_id: read_values(row.applied or {})
        for row in ServingConfig.objects.filter(model_id__in=keys, applied__isnull=False)
    }
    return [
        ModelFacts(
            model=one,
            deployments=deployments.get(one.pk, []),
            table=tables.get(one.pk),
            applied=applied.get(one.pk),
            loaded=loaded.get(one.pk),
            values=values.get(one.pk),
        )
        for one in models
    ]


def _deployments(runtime: Runtime, model: InferenceModel | None) -> dict[int, list[Deployment]]:
    rows = Deployment.objects.exclude(GONE).filter(runtime=runtime)
    if model is not None:
        rows = rows.filter(version__model=model)
    found: dict[int, list[Deployment]] = defaultdict(list)
    for row in rows.select_related("version"):
        found[row.version.model_id].append(row)
    return dict(found)
