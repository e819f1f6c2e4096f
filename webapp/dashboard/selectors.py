"""What the gathering pages show, from the other apps' selectors. Owns no table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from webapp.audit.models import AuditEvent
from webapp.audit.selectors import audit_list
from webapp.catalog.choices import Stage, VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.catalog.selectors import model_list, version_list
from webapp.core.track_diagram import Arm, Diagram, Lamp, Role
from webapp.rollouts.models import Rollout
from webapp.rollouts.selectors import rollouts_active
from webapp.serving.choices import DeploymentState, RuntimeHealth
from webapp.serving.models import Deployment, Runtime
from webapp.serving.selectors import deployment_list, runtime_list, traffic_state
from webapp.telemetry.selectors import (
    STALE_AFTER,
    data_at,
    observed_shares,
    rate_history,
    rates_now,
    totals_now,
)
from webapp.telemetry.totals import Totals

RECENT = timedelta(hours=24)
_MANY_ERRORS = 0.05  # share of the requests of the last seconds at which not all is well
_FEW_REQUESTS = 20  # of fewer, one error would be many


@dataclass(frozen=True, slots=True)
class ModelRow:
    model: InferenceModel
    diagram: Diagram
    production: int | None
    newest: ModelVersion | None
    deployed: int
    rate: float | None
    history: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class VersionRow:
    version: ModelVersion
    deployments: list[Deployment]
    stages: list[str]
    aliases: list[str]
    role: str
    share: float

    @property
    def available(self) -> bool:
        return any(d.wanted and d.state == DeploymentState.AVAILABLE for d in self.deployments)

    @property
    def wanted(self) -> bool:
        return any(d.wanted for d in self.deployments)


@dataclass(frozen=True, slots=True)
class Overview:
    models: int
    runtimes: list[Runtime]
    rollouts: list[tuple[Rollout, Diagram]]
    problems: list["Problem"]
    changes: list[AuditEvent]
    totals: Totals | None
    data_at: datetime | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a person should look at, with where to go."""

    text: str
    reason: str
    url: str
    since: datetime | None = field(default=None)


_LAMPS: dict[str, tuple[Lamp, str]] = {
    DeploymentState.AVAILABLE: ("good", "available"),
    DeploymentState.LOADING: ("busy", "loading"),
    DeploymentState.PENDING: ("busy", "waiting to load"),
    DeploymentState.UNLOADING: ("busy", "unloading"),
    DeploymentState.FAILED: ("bad", "failed"),
    DeploymentState.UNLOADED: ("idle", "not loaded"),
}


def model_rows(*, query: str = "") -> QuerySet[InferenceModel]:
    rows = model_list()
    return rows.filter(name__icontains=query.strip()) if query.strip() else rows


def model_row_list(*, models: Sequence[InferenceModel]) -> list[ModelRow]:
    """For one page of the list; rates and history are read once for all."""
    rates = rates_now()
    newest = data_at()
    known = newest is not None and timezone.now() - newest < STALE_AFTER
    names = [model.name for model in models]
    history = rate_history(models=names) if names else {}
    deployed = {
        model.name: deployment_list(model=model).filter(wanted=True).count() for model in models
    }
    return [
        ModelRow(
            model=model,
            diagram=model_diagram(model=model),
            production=_stage(model, Stage.PRODUCTION),
            newest=version_list(model=model).first(),
            deployed=deployed[model.name],
            rate=sum(r for (name, _), r in rates.items() if name == model.name)
            if known and deployed[model.name]
            else None,
            history=history.get(model.name, []),
        )
        for model in models
    ]


def _stage(model: InferenceModel, stage: Stage) -> int | None:
    return next((row.version.number for row in model.stages.all() if row.stage == stage), None)


def model_diagram(*, model: InferenceModel, rate_text: str = "") -> Diagram:
    """Arms of the traffic table, then deployed versions without traffic as sidings."""
    traffic = traffic_state(model=model)
    observed = observed_shares(model=model.name)
    states = {row.version.number: row.state for row in deployment_list(model=model).order_by("-id")}
    arms = [
        _arm(arm["version"], arm["role"], arm["configured"], observed, states)
        for arm in traffic["arms"]
    ]
    placed = {arm["version"] for arm in traffic["arms"]}
    arms += [
        _arm(number, "idle", 0.0, observed, states)
        for number in sorted(states, reverse=True)
        if number not in placed
    ]
    return Diagram(model.name, tuple(arms), rate_text=rate_text)


def _arm(
    number: int, role: Role, configured: float, observed: dict[int, float], states: dict[int, str]
) -> Arm:
    lamp, word = _LAMPS.get(states.get(number, ""), ("idle", "not loaded"))
    share = observed.get(number, 0.0) if observed else None
    return Arm(f"v{number}", role, configured, share, lamp, word)


def version_rows(*, model: InferenceModel) -> list[VersionRow]:
    deployments: dict[int, list[Deployment]] = {}
    for deployment in deployment_list(model=model):
        deployments.setdefault(deployment.version.number, []).append(deployment)
    arms = {arm["version"]: arm for arm in traffic_state(model=model)["arms"]}
    stages = [(row.version.number, row.stage) for row in model.stages.select_related("version")]
    aliases = [(row.version.number, row.name) for row in model.aliases.select_related("version")]
    return [
        VersionRow(
            version=version,
            deployments=deployments.get(version.number, []),
            stages=[stage for number, stage in stages if number == version.number],
            aliases=[alias for number, alias in aliases if number == version.number],
            role=arms.get(version.number, {}).get("role", ""),
            share=arms.get(version.number, {}).get("configured", 0.0),
        )
        for version in version_list(model=model)
    ]


def overview() -> Overview:
    rollouts = list(rollouts_active().order_by("-created_at")[:10])
    return Overview(
        models=InferenceModel.objects.count(),
        runtimes=list(runtime_list()),
        rollouts=[(rollout, model_diagram(model=rollout.model)) for rollout in rollouts],
        problems=[*failing_now(), *problem_list()],
        changes=list(audit_list()[:10]),
        totals=totals_now(),
        data_at=data_at(),
    )


def failing_now() -> list[Problem]:
    """One entry while many of the requests of the last seconds fail, none otherwise."""
    totals = totals_now()
    if totals is None or totals.requests < _FEW_REQUESTS:
        return []
    share = totals.errors / totals.requests
    if share < _MANY_ERRORS:
        return []
    ends = {
        "server faults": totals.failures,
        "refused": totals.rejections,
        "timed out": totals.timeouts,
    }
    counts = ", ".join(f"{count:,} {end}" for end, count in ends.items() if count)
    reason = f"of {totals.requests:,} in the last seconds: {counts}"
    return [Problem(f"{share:.0%} of requests fail", reason, "/live/", data_at())]


def problem_list() -> list[Problem]:
    """Unhealthy runtimes, failed deployments, and versions refused in the last day."""
    problems = [
        Problem(f"Runtime {r.name}", r.health_reason, f"/runtimes/{r.name}/", r.last_seen_at)
        for r in runtime_list()
        if r.health in {RuntimeHealth.NOT_READY, RuntimeHealth.UNREACHABLE}
    ]
    failed = Deployment.objects.filter(wanted=True, state=DeploymentState.FAILED)
    for row in failed.select_related("version__model", "runtime")[:20]:
        model = row.version.model.name
        url = f"/models/{model}/versions/{row.version.number}/"
        problems.append(Problem(str(row), row.reason, url, row.since))
    refused = ModelVersion.objects.filter(
        state=VersionState.REJECTED, created_at__gte=timezone.now() - RECENT
    )
    for version in refused.select_related("model")[:20]:
        url = f"/models/{version.model.name}/versions/{version.number}/"
        problems.append(Problem(f"{version} was rejected", _why(version), url, version.created_at))
    return problems


def _why(version: ModelVersion) -> str:
    failed = next((check for check in version.checks if check["status"] == "failed"), None)
    return f"{failed['name']}: {failed['detail']}" if failed else ""


def audit_filtered(*, target: str, action: str, actor_name: str) -> QuerySet[AuditEvent]:
    return audit_list(
        target=target.strip() or None,
        action=action.strip() or None,
        actor_name=actor_name.strip() or None,
    )
