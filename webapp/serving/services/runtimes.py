"""Runtimes: the embedded one, others added by address, removed again."""

import re
from typing import Any

from django.db import IntegrityError, transaction

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, require
from webapp.audit.services import audit_record
from webapp.core.errors import Conflict, InvalidInput
from webapp.runtime_client.address import AddressProblem, parse_address
from webapp.runtime_client.connections import connect
from webapp.serving.choices import RuntimeHealth
from webapp.serving.models import Runtime
from webapp.serving.observation import Observation, observe
from webapp.serving.selectors import deployment_list, embedded_addresses
from webapp.serving.services.marking import runtime_mark

EMBEDDED_NAME = "local"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}\Z")
_ADDRESSES = ("http_address", "grpc_address", "metrics_address")


def runtime_ensure_embedded() -> Runtime:
    """Registers the runtime `make run` starts, and follows its ports; asks nothing of it."""
    addresses = embedded_addresses()
    with transaction.atomic():
        runtime, made = Runtime.objects.get_or_create(
            embedded=True, defaults={"name": EMBEDDED_NAME, **addresses}
        )
        if made:
            audit_record(
                actor=None,
                action="runtime.register",
                target=f"runtimes/{runtime.name}",
                after=_shown(runtime),
            )
        elif any(getattr(runtime, name) != value for name, value in addresses.items()):
            before = _shown(runtime)
            Runtime.objects.filter(pk=runtime.pk).update(**addresses)
            runtime.refresh_from_db()
            audit_record(
                actor=None,
                action="runtime.update",
                target=f"runtimes/{runtime.name}",
                before=before,
                after=_shown(runtime),
                note="the ports in the process settings changed",
            )
    return runtime


def runtime_register(
    *,
    name: str,
    addresses: dict[str, Any],
    actor: User,
    save_anyway: bool = False,
) -> Runtime:
    """Asks the runtime first. One that does not answer is refused, unless `save_anyway`."""
    require(actor=actor, action=Action.MANAGE_RUNTIMES)
    given = _checked_addresses(addresses)
    if not _NAME.match(name):
        raise _invalid("name", "Use letters, digits, '_' and '-', at most 60 of them.")
    _refuse_taken(name, given, besides=None)
    observation = _asked(given)
    if observation.health == RuntimeHealth.UNREACHABLE and not save_anyway:
        raise _unreachable(observation)
    try:
        with transaction.atomic():
            runtime = Runtime.objects.create(name=name, **given)
            audit_record(
                actor=actor,
                action="runtime.register",
                target=f"runtimes/{runtime.name}",
                after=_shown(runtime),
            )
    except IntegrityError:
        raise _name_taken(name) from None
    runtime_mark(runtime=runtime, observation=observation)
    return runtime


def runtime_update(
    *, runtime: Runtime, addresses: dict[str, Any], actor: User, save_anyway: bool = False
) -> Runtime:
    """Other addresses for the same runtime."""
    require(actor=actor, action=Action.MANAGE_RUNTIMES)
    if runtime.embedded:
        raise Conflict(
            "The embedded runtime's addresses come from the process settings.",
            reason="RUNTIME_EMBEDDED",
            help_text="Change SWITCHYARD_HTTP_PORT and its like, and start the stack again.",
        )
    merged = {name: getattr(runtime, name) for name in _ADDRESSES} | addresses
    given = _checked_addresses(merged)
    _refuse_taken(runtime.name, given, besides=runtime)
    observation = _asked(given)
    if observation.health == RuntimeHealth.UNREACHABLE and not save_anyway:
        raise _unreachable(observation)
    with transaction.atomic():
        before = _shown(runtime)
        Runtime.objects.filter(pk=runtime.pk).update(**given)
        runtime.refresh_from_db()
        audit_record(
            actor=actor,
            action="runtime.update",
            target=f"runtimes/{runtime.name}",
            before=before,
            after=_shown(runtime),
        )
    runtime_mark(runtime=runtime, observation=observation)
    return runtime


def runtime_remove(*, runtime: Runtime, actor: User) -> None:
    """Forgets the runtime; it goes on serving whatever it has."""
    require(actor=actor, action=Action.MANAGE_RUNTIMES)
    if runtime.embedded:
        raise Conflict(
            "The embedded runtime belongs to this installation and cannot be removed.",
            reason="RUNTIME_EMBEDDED",
        )
    with transaction.atomic():
        Runtime.objects.select_for_update().get(pk=runtime.pk)
        left = [str(one.version) for one in deployment_list(runtime=runtime)]
        if left:
            raise Conflict(
                f"{runtime.name} still has {len(left)} deployment(s): {', '.join(left[:5])}.",
                reason="RUNTIME_IN_USE",
                help_text="Undeploy them from this runtime first.",
            )
        audit_record(
            actor=actor,
            action="runtime.remove",
            target=f"runtimes/{runtime.name}",
            before=_shown(runtime),
        )
        runtime.delete()


def _checked_addresses(addresses: dict[str, Any]) -> dict[str, str]:
    unknown = sorted(set(addresses) - set(_ADDRESSES))
    if unknown:
        raise _invalid(unknown[0], f"There is no such field; fields are {', '.join(_ADDRESSES)}.")
    given = {}
    for name in _ADDRESSES:
        text = addresses.get(name, "")
        if not isinstance(text, str) or len(text) > 200:
            raise _invalid(name, "host:port is expected, such as 10.0.0.7:8000.")
        given[name] = text.strip()
        if name == "metrics_address" and not given[name]:
            continue
        try:
            parse_address(given[name])
        except AddressProblem as problem:
            raise _invalid(name, f"{problem}.") from None
    return given


def _refuse_taken(name: str, given: dict[str, str], *, besides: Runtime | None) -> None:
    others = Runtime.objects.exclude(pk=besides.pk) if besides is not None else Runtime.objects
    if others.filter(name=name).exists():
        raise _name_taken(name)
    for field in ("http_address", "grpc_address"):
        other = others.filter(**{field: given[field]}).first()
        if other is not None:
            raise Conflict(
                f"{given[field]} is the {field.replace('_', ' ')} of runtime {other.name} already.",
                reason="RUNTIME_EXISTS",
                errors=[{"pointer": f"/{field}", "detail": "in use", "code": "in_use"}],
            )


def _name_taken(name: str) -> Conflict:
    return Conflict(
        f"There is a runtime named {name!r} already.",
        reason="RUNTIME_EXISTS",
        errors=[{"pointer": "/name", "detail": "in use", "code": "in_use"}],
    )


def _asked(given: dict[str, str]) -> Observation:
    return observe(connect(**given))


def _unreachable(observation: Observation) -> Conflict:
    return Conflict(
        f"The runtime does not answer. {observation.reason}.",
        reason="RUNTIME_UNREACHABLE",
        help_text="Check the addresses and that the server runs, or save it anyway "
        '("save_anyway": true) and it is used as soon as it answers.',
    )


def _invalid(field: str, detail: str) -> InvalidInput:
    return InvalidInput(
        f"{field}: {detail}",
        reason="INVALID_RUNTIME",
        errors=[{"pointer": f"/{field}", "detail": detail, "code": "invalid"}],
    )


def _shown(runtime: Runtime) -> dict[str, Any]:
    return {"name": runtime.name} | {name: getattr(runtime, name) for name in _ADDRESSES}
