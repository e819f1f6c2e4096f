"""Role × action, in one table; asked by pages, the API and websockets alike."""

from collections.abc import Callable
from enum import StrEnum
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from webapp.accounts.choices import Role
from webapp.accounts.models import User
from webapp.core.errors import PermissionRefused

if TYPE_CHECKING:
    from rest_framework.views import APIView  # DRF loads this module while it loads that one


class Action(StrEnum):
    VIEW = "view"
    MANAGE_OWN_TOKENS = "manage_own_tokens"
    MANAGE_MODELS = "manage_models"  # create, upload, archive, stages and aliases
    DEPLOY = "deploy"
    ROLLOUT = "rollout"
    BENCHMARK = "benchmark"
    CANCEL_JOBS = "cancel_jobs"
    VIEW_AUDIT = "view_audit"
    MANAGE_RUNTIMES = "manage_runtimes"
    MANAGE_PEOPLE = "manage_people"


_LEAST_ROLE: dict[Action, Role] = {
    Action.VIEW: Role.VIEWER,
    Action.MANAGE_OWN_TOKENS: Role.VIEWER,
    Action.VIEW_AUDIT: Role.VIEWER,
    Action.MANAGE_MODELS: Role.OPERATOR,
    Action.DEPLOY: Role.OPERATOR,
    Action.ROLLOUT: Role.OPERATOR,
    Action.BENCHMARK: Role.OPERATOR,
    Action.CANCEL_JOBS: Role.OPERATOR,
    Action.MANAGE_RUNTIMES: Role.ADMIN,
    Action.MANAGE_PEOPLE: Role.ADMIN,
}
_RANK: dict[str, int] = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.ADMIN: 2}
_WORDS: dict[Action, str] = {
    Action.VIEW: "look at this",
    Action.MANAGE_OWN_TOKENS: "manage your tokens",
    Action.MANAGE_MODELS: "change models and versions",
    Action.DEPLOY: "deploy and undeploy versions",
    Action.ROLLOUT: "move traffic",
    Action.BENCHMARK: "run benchmarks",
    Action.CANCEL_JOBS: "cancel jobs",
    Action.VIEW_AUDIT: "read the audit log",
    Action.MANAGE_RUNTIMES: "add or change runtimes",
    Action.MANAGE_PEOPLE: "manage people",
}


def least_role(action: Action) -> Role:
    return _LEAST_ROLE[action]


def allows(role: str, action: Action) -> bool:
    return _RANK.get(role, -1) >= _RANK[_LEAST_ROLE[action]]


def user_allows(user: User | AnonymousUser, action: Action) -> bool:
    return isinstance(user, User) and user.is_active and allows(user.role, action)


def refusal(action: Action) -> str:
    """Says which role is needed and who can grant it."""
    role = least_role(action)
    return f"Only the role {role.value} or above may {_WORDS[action]}. An admin can grant it under People."


def require(*, actor: User, action: Action) -> None:
    if not user_allows(actor, action):
        raise PermissionRefused(
            refusal(action), reason="ROLE_REQUIRED", role_required=least_role(action).value
        )


class ActionPermission(BasePermission):
    """Reads `read_action` and `write_action` of the view; a view that names none lets nobody write."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        user = request.user
        if not isinstance(user, User):
            return False
        if request.method in {"GET", "HEAD", "OPTIONS"}:
            action = Action(getattr(view, "read_action", Action.VIEW))
        elif not hasattr(view, (request.method or "").lower()):
            return True  # DRF answers 405; a refusal would hide it
        else:
            action = Action(getattr(view, "write_action", "") or Action.MANAGE_PEOPLE)
        require(actor=user, action=action)
        return True


P = ParamSpec("P")
PageView = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def requires(action: Action) -> Callable[[PageView[P]], PageView[P]]:
    """For pages: sends a stranger to the login page, shows others a 403 that names the role needed."""

    def decorate(page: PageView[P]) -> PageView[P]:
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not isinstance(request.user, User):
                return redirect_to_login(request.get_full_path())
            require(actor=request.user, action=action)
            return page(request, *args, **kwargs)

        return update_wrapper(guarded, page)

    return decorate


def actor_of(request: HttpRequest | Request | Any) -> User:
    """The signed-in user, typed. Only for views behind `requires` or ActionPermission."""
    user = request.user
    if not isinstance(user, User):
        raise PermissionRefused("Sign in first.", reason="NOT_AUTHENTICATED")
    return user
