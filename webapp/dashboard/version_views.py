"""The page of one version, its actions, and "try it"."""

import json

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from webapp.accounts.permissions import Action, actor_of, requires, user_allows
from webapp.benchmarks.selectors import run_list
from webapp.catalog.models import ModelVersion
from webapp.catalog.selectors import alias_map, check_rows, stage_map, version_get, version_uses
from webapp.catalog.services import stage_switch, version_archive, version_restore
from webapp.core.errors import ControlPlaneError
from webapp.dashboard.snippets import sample_inputs, snippets, trial_fields
from webapp.dashboard.trial import try_version
from webapp.jobs.selectors import jobs_open
from webapp.serving.choices import DeploymentState
from webapp.serving.selectors import deployment_list, embedded_addresses, weight_of
from webapp.serving.services import deployment_remove, deployment_request


@requires(Action.VIEW)
def version_page(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    version = version_get(name=name, number=number)
    return render(request, "dashboard/version.html", _context(request, version))


def _context(request: HttpRequest, version: ModelVersion) -> dict[str, object]:
    model, number = version.model, version.number
    deployments = list(deployment_list(model=model).filter(version=version))
    addresses = embedded_addresses()
    inputs = sample_inputs(version.inputs)
    return {
        "version": version,
        "model": model,
        "checks": check_rows(version=version),
        "deployments": deployments,
        "wanted": any(d.wanted for d in deployments),
        "available": any(d.state == DeploymentState.AVAILABLE for d in deployments),
        "jobs": list(jobs_open(target=_path(version))),
        "share": weight_of(model=model, version=number),
        "stages": [stage for stage, n in stage_map(model=model).items() if n == number],
        "aliases": [alias for alias, n in alias_map(model=model).items() if n == number],
        "uses": version_uses(version=version),
        "benchmarks": run_list(model=model).filter(version=version)[:5],
        "trial_inputs": json.dumps(inputs, indent=2),
        "picture": _picture_input(version),
        "trial_fields": trial_fields(inputs),
        "snippets": snippets(
            model=model.name,
            version=number,
            http=addresses["http_address"],
            grpc=addresses["grpc_address"],
            inputs=inputs,
        ),
        "may_upload": user_allows(request.user, Action.MANAGE_MODELS),
        "may_deploy": user_allows(request.user, Action.DEPLOY),
        "may_roll_out": user_allows(request.user, Action.ROLLOUT),
        "may_measure": user_allows(request.user, Action.BENCHMARK),
    }


def _path(version: ModelVersion) -> str:
    return f"/api/v1/models/{version.model.name}/versions/{version.number}"


def _picture_input(version: ModelVersion) -> dict[str, object] | None:
    """The one FP32 input of shape [N,3,H,W], if that is all the version wants: it takes pictures."""
    if len(version.inputs) != 1:
        return None
    entry = version.inputs[0]
    shape = entry["shape"]
    if entry["datatype"] != "FP32" or len(shape) != 4 or shape[1] != 3 or min(shape[2:]) < 8:
        return None
    return {"name": entry["name"], "height": shape[2], "width": shape[3]}


@require_POST
@requires(Action.VIEW)
def version_try(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    """Answers with a fragment: the outputs, or what is wrong with the inputs."""
    version = version_get(name=name, number=number)
    try:
        trial = try_version(
            version=version, text=request.POST.get("inputs", ""), actor=actor_of(request)
        )
    except ControlPlaneError as error:
        return render(request, "dashboard/_trial.html", {"problem": error})
    return render(request, "dashboard/_trial.html", {"trial": trial})


@require_POST
@requires(Action.DEPLOY)
def version_deploy(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    version = version_get(name=name, number=number)
    return _act(
        request,
        version,
        lambda: deployment_request(
            version=version, actor=actor_of(request), traffic=request.POST.get("traffic", "")
        ),
        f"Deploying {version}.",
    )


@require_POST
@requires(Action.DEPLOY)
def version_undeploy(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    version = version_get(name=name, number=number)
    return _act(
        request,
        version,
        lambda: deployment_remove(
            version=version,
            actor=actor_of(request),
            out_of_service=request.POST.get("out_of_service") == "true",
        ),
        f"Taking {version} out.",
    )


@require_POST
@requires(Action.MANAGE_MODELS)
def version_shelve(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    """Archives a version, or brings an archived one back."""
    version = version_get(name=name, number=number)
    archived = version.state == "ARCHIVED"
    change = version_restore if archived else version_archive
    word = "restored" if archived else "archived"
    return _act(
        request,
        version,
        lambda: change(version=version, actor=actor_of(request)),
        f"{version} is {word}.",
    )


@require_POST
@requires(Action.MANAGE_MODELS)
def version_stage(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    version = version_get(name=name, number=number)
    return _act(
        request,
        version,
        lambda: stage_switch(
            model=version.model,
            stage="staging",
            version=version,
            actor=actor_of(request),
            reason="set on the version's page",
        ),
        f"Staging points at {version}.",
    )


def _act(request, version, change, done: str) -> HttpResponseBase:  # type: ignore[no-untyped-def]
    try:
        change()
    except ControlPlaneError as error:
        messages.error(request, " ".join(filter(None, [error.detail, error.help_text])))
    else:
        messages.success(request, done)
    return redirect("dashboard:version", version.model.name, version.number)
