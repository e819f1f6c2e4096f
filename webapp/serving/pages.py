"""What the pages of serving show, gathered."""

from typing import Any

from webapp.catalog.choices import VersionState
from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.core.errors import ControlPlaneError
from webapp.jobs.choices import JobKind
from webapp.jobs.models import Job
from webapp.jobs.selectors import jobs_open
from webapp.serving.choices import ArmRole, RuntimeHealth
from webapp.serving.config_diff import diff_lines
from webapp.serving.forms import ServingConfigForm
from webapp.serving.live import RUNTIME_PREFIX
from webapp.serving.models import LoadedConfig, Runtime, TrafficTable
from webapp.serving.selectors import (
    Placement,
    config_in_force,
    config_versions,
    deployment_list,
    placement_counts,
    placement_list,
    placements_token,
    runtime_list,
    runtimes_serving,
    serving_config_row,
    splits_traffic,
)
from webapp.serving.services import serving_config_preview

_MOST_VERSIONS = 200


def fleet_context() -> dict[str, Any]:
    counted = [(runtime, placement_counts(runtime=runtime)) for runtime in runtime_list()]
    return {
        "rows": [{"runtime": runtime, "counts": counts} for runtime, counts in counted],
        "ready": sum(runtime.health == RuntimeHealth.READY for runtime, _ in counted),
        "drifted": sum(counts.drifted for _, counts in counted),
    }


def runtime_context(runtime: Runtime) -> dict[str, Any]:
    placements = placement_list(runtime=runtime)
    return {
        "runtime": runtime,
        "topic": f"{RUNTIME_PREFIX}:{runtime.name}",
        "digest": placements_token(runtime=runtime),
        "counts": placement_counts(runtime=runtime),
        "managed": _with_shares([one for one in placements if one.managed]),
        "others": [one for one in placements if not one.managed],
        "splits": splits_traffic(runtime=runtime),
        "known": bool(runtime.server_name),
        "stale": runtime.health == RuntimeHealth.UNREACHABLE,
        "job": _open_job(f"/api/v1/runtimes/{runtime.name}", JobKind.RECONCILE_RUNTIME),
        "deployable": _deployable(runtime),
    }


def _with_shares(placements: list[Placement]) -> list[dict[str, Any]]:
    """Each with its configured share, and why it cannot be undeployed when that is so."""
    arms: dict[str, dict[int, dict[str, Any]]] = {}
    rows = TrafficTable.objects.filter(model__name__in={one.model for one in placements})
    for table in rows.select_related("model"):
        arms[table.model.name] = {arm["version"]: arm for arm in table.arms}
    return [_with_share(one, arms.get(one.model, {})) for one in placements]


def _with_share(one: Placement, arms: dict[int, dict[str, Any]]) -> dict[str, Any]:
    arm = arms.get(one.version or 0)
    keep = ""
    if arm is not None and arm["role"] == ArmRole.CANARY:
        keep = "It is the canary of a rollout; promote or abort that first."
    elif arm is not None and arm["weight"] > 0 and one.desired == "loaded":
        keep = "It has traffic; move that to another version first."
    return {"placement": one, "share": arm["weight"] if arm is not None else None, "keep": keep}


def _deployable(runtime: Runtime) -> list[ModelVersion]:
    """Versions that could be loaded here and are not."""
    here = deployment_list(runtime=runtime).filter(wanted=True).values("version_id")
    rows = ModelVersion.objects.filter(state=VersionState.READY).exclude(pk__in=here)
    return list(rows.select_related("model").order_by("model__name", "-number")[:_MOST_VERSIONS])


def config_context(model: InferenceModel, form: ServingConfigForm) -> dict[str, Any]:
    runtimes = runtimes_serving(model=model)
    row = serving_config_row(model=model)
    loaded = {
        one.runtime_id: one
        for one in LoadedConfig.objects.filter(model=model).select_related("runtime")
    }
    versions = config_versions(model=model)
    return {
        "model": model,
        "form": form,
        "row": row,
        "versions": versions,
        "runtimes": [
            {"runtime": runtime, "loaded": loaded.get(runtime.pk)} for runtime in runtimes
        ],
        "effect": _effect(model, runtimes),
        "job": _open_job(
            f"/api/v1/models/{model.name}/serving-config", JobKind.APPLY_SERVING_CONFIG
        ),
        "in_force": config_in_force(model=model),
    }


def _effect(model: InferenceModel, runtimes: list[Runtime]) -> str:
    """What the save button does, on the button."""
    if not runtimes:
        return "Save for the next deploy"
    names = runtimes[0].name if len(runtimes) == 1 else f"{len(runtimes)} runtimes"
    return f"Save and reload {model.name} on {names}"


def preview_context(model: InferenceModel, form: ServingConfigForm) -> dict[str, Any]:
    """The config the form stands for, against the one in force; or why there is none."""
    values = form.values() if form.is_bound and form.is_valid() else None
    if form.is_bound and values is None:
        problems = [
            f"{form.fields[name].label}: {text}" if name in form.fields else str(text)
            for name, texts in form.errors.items()
            for text in texts
        ]
        return {"problems": problems}
    if values is None:
        values = {
            name: value
            for name, value in (form.initial or {}).items()
            if name not in ("revision", "preferred_batch_sizes")
        }
        sizes = str((form.initial or {}).get("preferred_batch_sizes", ""))
        values["preferred_batch_sizes"] = [int(size) for size in sizes.split(", ") if size]
    try:
        preview = serving_config_preview(model=model, values=values)
    except ControlPlaneError as error:
        return {"problems": [_labelled(form, one) for one in error.errors] or [error.detail]}
    lines = diff_lines(preview.before, preview.text)
    return {
        "preview": preview,
        "lines": lines,
        "differs": any(line.kind != "same" for line in lines),
    }


def _labelled(form: ServingConfigForm, problem: dict[str, Any]) -> str:
    field = str(problem["pointer"]).strip("/")
    label = form.fields[field].label if field in form.fields else field
    return f"{label}: {problem['detail']}"


def _open_job(target: str, kind: JobKind) -> Job | None:
    return jobs_open(target=target).filter(kind=kind.value).first()
