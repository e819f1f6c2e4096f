"""Pages: sign in and out, your account, people."""

from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from webapp.accounts.choices import Role
from webapp.accounts.forms import LoginForm, PasswordForm, PersonForm, TokenForm
from webapp.accounts.models import User
from webapp.accounts.permissions import Action, actor_of, requires
from webapp.accounts.selectors import person_get, person_list, token_get, token_list
from webapp.accounts.serializers import token_state
from webapp.accounts.services import (
    login_check,
    password_change,
    password_reset,
    person_change,
    person_create,
    token_issue,
    token_revoke,
)
from webapp.core.errors import ControlPlaneError


@never_cache
@sensitive_post_parameters()
def login_page(request: HttpRequest) -> HttpResponseBase:
    following = _safe_next(request)
    if request.user.is_authenticated:
        return redirect(following)
    form = LoginForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            user = login_check(
                username=form.cleaned_data["username"],
                password=form.cleaned_data["password"],
                address=_address(request),
            )
        except ControlPlaneError as error:
            form.add_error(None, " ".join(filter(None, [error.detail, error.help_text])))
            status = error.status
        else:
            login(request, user)
            return redirect(following)
    context = {"form": form, "next": following}
    return render(request, "accounts/login.html", context, status=status)


@require_POST
def logout_page(request: HttpRequest) -> HttpResponseBase:
    logout(request)
    return redirect("accounts:login")


@never_cache
@requires(Action.VIEW)
def account(request: HttpRequest) -> HttpResponseBase:
    return _account(request)


@require_POST
@requires(Action.MANAGE_OWN_TOKENS)
def account_token(request: HttpRequest) -> HttpResponseBase:
    """Answers with the page itself, not a redirect: the token is shown here and nowhere else."""
    form = TokenForm(request.POST)
    issued = ""
    if form.is_valid():
        user = actor_of(request)
        days = form.cleaned_data["expires_in_days"]
        expires_at = timezone.now() + timedelta(days=int(days)) if days else None
        _, issued = token_issue(
            user=user, name=form.cleaned_data["name"], actor=user, expires_at=expires_at
        )
        form = TokenForm()
    return _account(request, token_form=form, issued=issued)


@require_POST
@requires(Action.MANAGE_OWN_TOKENS)
def account_token_revoke(request: HttpRequest, token_id: int) -> HttpResponseBase:
    user = actor_of(request)
    token = token_get(user=user, token_id=token_id)
    token_revoke(token=token, actor=user)
    messages.success(request, f"Token “{token.name}” is revoked. Calls that use it fail from now.")
    return redirect("accounts:account")


@require_POST
@sensitive_post_parameters()
@requires(Action.VIEW)
def account_password(request: HttpRequest) -> HttpResponseBase:
    form = PasswordForm(request.POST)
    if form.is_valid():
        user = actor_of(request)
        try:
            password_change(
                person=user, current=form.cleaned_data["current"], new=form.cleaned_data["new"]
            )
        except ControlPlaneError as error:
            field = "current" if error.reason == "WRONG_PASSWORD" else "new"
            form.add_error(field, error.detail)
        else:
            update_session_auth_hash(request, user)
            messages.success(request, "Your password is changed. Other sessions have ended.")
            return redirect("accounts:account")
    return _account(request, password_form=form)


@never_cache
@requires(Action.MANAGE_PEOPLE)
def people(request: HttpRequest) -> HttpResponseBase:
    return _people(request)


@require_POST
@requires(Action.MANAGE_PEOPLE)
def people_create(request: HttpRequest) -> HttpResponseBase:
    form = PersonForm(request.POST)
    shown: dict[str, str] = {}
    if form.is_valid():
        try:
            person, password = person_create(
                username=form.cleaned_data["username"],
                role=form.cleaned_data["role"],
                actor=actor_of(request),
            )
        except ControlPlaneError as error:
            form.add_error("username", error.detail)
        else:
            shown = {"username": person.username, "password": password}
            form = PersonForm()
    return _people(request, form=form, shown=shown)


@require_POST
@requires(Action.MANAGE_PEOPLE)
def people_change(request: HttpRequest, username: str) -> HttpResponseBase:
    active = request.POST.get("is_active")
    try:
        person = person_change(
            person=person_get(username=username),
            actor=actor_of(request),
            role=request.POST.get("role") or None,
            is_active=None if active is None else active == "true",
        )
    except ControlPlaneError as error:
        messages.error(request, f"{error.detail} {error.help_text}".strip())
    else:
        state = person.role if person.is_active else "deactivated"
        messages.success(request, f"{person.username} is now {state}.")
    return redirect("accounts:people")


@require_POST
@requires(Action.MANAGE_PEOPLE)
def people_reset(request: HttpRequest, username: str) -> HttpResponseBase:
    person = person_get(username=username)
    password = password_reset(person=person, actor=actor_of(request))
    return _people(request, shown={"username": person.username, "password": password})


def _account(
    request: HttpRequest,
    *,
    token_form: TokenForm | None = None,
    password_form: PasswordForm | None = None,
    issued: str = "",
) -> HttpResponseBase:
    tokens = [(token, token_state(token)) for token in token_list(user=actor_of(request))[:100]]
    context = {
        "tokens": tokens,
        "active": sum(state == "active" for _, state in tokens),
        "token_form": token_form or TokenForm(),
        "password_form": password_form or PasswordForm(),
        "issued": issued,
        "address": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(
        request, "accounts/account.html", context, status=_status(token_form, password_form)
    )


def _people(
    request: HttpRequest, *, form: PersonForm | None = None, shown: dict[str, str] | None = None
) -> HttpResponseBase:
    everybody: list[User] = list(person_list())
    context = {
        "people": everybody,
        "admins": sum(person.role == Role.ADMIN and person.is_active for person in everybody),
        "roles": Role.values,
        "form": form or PersonForm(),
        "shown": shown,
    }
    return render(request, "accounts/people.html", context, status=_status(form))


def _status(*forms: LoginForm | TokenForm | PasswordForm | PersonForm | None) -> int:
    return 422 if any(form is not None and form.errors for form in forms) else 200


def _safe_next(request: HttpRequest) -> str:
    asked = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(
        asked, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return asked if safe else "/"


def _address(request: HttpRequest) -> str:
    """Who is knocking. Behind our own TLS proxy the last hop is the one it saw."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    if settings.BEHIND_TLS and forwarded:
        return forwarded.rsplit(",", 1)[-1].strip()
    return str(request.META.get("REMOTE_ADDR", ""))
