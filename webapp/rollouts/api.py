"""REST: start, watch and steer rollouts."""

from collections.abc import Callable

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.selectors import model_get, version_get
from webapp.core.api import (
    ApiView,
    body_of,
    check_if_match,
    etag_of,
    etag_response,
    filtered,
    ordered,
    page,
    validate_only,
)
from webapp.core.errors import InvalidInput
from webapp.rollouts.models import Rollout
from webapp.rollouts.selectors import rollout_get, rollout_list
from webapp.rollouts.serializers import (
    analysis_body,
    intent_body,
    options_of,
    plan_from_body,
    rollout_body,
    rollout_tag,
    transition_body,
    version_number,
)
from webapp.rollouts.services import (
    rollout_abort,
    rollout_advance,
    rollout_intent,
    rollout_pause,
    rollout_promote,
    rollout_resume,
    rollout_start,
)
from webapp.rollouts.state_machine import Move
from webapp.telemetry.selectors import rate_now

_FILTERS = {
    "state": "state",
    "model": "model__name",
    "verdict": "verdict",
    "created_at": "created_at",
}
_ORDERS = {"created_at": "created_at", "state": "state", "model": "model__name"}
_SERVICES: dict[Move, Callable[..., Rollout]] = {
    Move.PAUSE: rollout_pause,
    Move.RESUME: rollout_resume,
    Move.ADVANCE: rollout_advance,
    Move.PROMOTE: rollout_promote,
    Move.ABORT: rollout_abort,
}


class RolloutCollection(ApiView):
    """All rollouts, or those of one model, newest first; POST starts one."""

    write_action = Action.ROLLOUT

    def get(self, request: Request, name: str | None = None) -> Response:
        """List rollouts, newest first.

        Filter by state, model, verdict, created_at.
        """
        rows = rollout_list()
        if name is not None:
            rows = rows.filter(model=model_get(name=name))
        rows = ordered(filtered(rows, request, _FILTERS), request, _ORDERS)
        return page(rows, request, rollout_body)


class ModelRollouts(RolloutCollection):
    def post(self, request: Request, name: str) -> Response:
        """Start a rollout.

        {"version": 4} is enough. Optional: "steps" [{"weight": 0.05, "hold_seconds": 600,
        "min_requests": 300, "pause": false}] with shares that rise to 1, "bake_seconds",
        "min_requests" for all steps, "guardrails" {"errors", "rejections", "client_faults",
        "latency": true or false, "slo_ms", "false_stop_budget", …}, "allow_contract_change",
        "supersede". With ?validate_only=true the answer is the plan and the time it would take.
        """
        body = body_of(request)
        model = model_get(name=name)
        canary = version_get(name=name, number=version_number(body))
        plan, options = plan_from_body(body), options_of(body)
        if validate_only(request):
            intent = rollout_intent(model=model, canary=canary, plan=plan, options=options)
            return Response(intent_body(intent, rate=rate_now(model=name)))
        rollout = rollout_start(
            model=model, canary=canary, plan=plan, actor=actor_of(request), options=options
        )
        answer = _shown(request, rollout, status=201)
        answer["Location"] = f"/api/v1/{rollout.api_path}"
        return answer


class RolloutItem(ApiView):
    def get(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        """Read a rollout: state, shares, evidence, comparison and what can be done with it now."""
        return _shown(request, rollout_get(rollout_id=rollout_id, model_name=name))


class RolloutHistory(ApiView):
    def get(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        """Every move of a rollout, newest first."""
        rollout = rollout_get(rollout_id=rollout_id, model_name=name)
        return page(rollout.transitions.all(), request, transition_body)


class RolloutAnalysis(ApiView):
    def get(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        """What each step showed, oldest first."""
        rollout = rollout_get(rollout_id=rollout_id, model_name=name)
        return page(rollout.analyses.all(), request, analysis_body)


class RolloutAction(ApiView):
    """`:pause :resume :advance :promote :abort`, with an optional {"reason"} and If-Match.

    With ?validate_only=true the answer is the rollout as it would be; nothing moves.
    """

    write_action = Action.ROLLOUT
    move: Move = Move.PAUSE  # as_view sets it

    def post(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        rollout = rollout_get(rollout_id=rollout_id, model_name=name)
        check_if_match(request, rollout_tag(rollout))
        actor, reason = actor_of(request), _reason(request)
        if validate_only(request):
            with transaction.atomic():
                moved = act(self.move, rollout=rollout, actor=actor, reason=reason)
                body = rollout_body(moved)
                transaction.set_rollback(True)
            return Response(body)
        return _shown(request, act(self.move, rollout=rollout, actor=actor, reason=reason))


def act(move: Move, *, rollout: Rollout, actor: User, reason: str) -> Rollout:
    return _SERVICES[move](rollout=rollout, actor=actor, reason=reason)


def _reason(request: Request) -> str:
    reason = body_of(request).get("reason", "")
    if not isinstance(reason, str) or len(reason) > 300:
        raise InvalidInput(
            "reason: a text of at most 300 characters is expected.", reason="BAD_PARAMETER"
        )
    return reason


def _shown(request: Request, rollout: Rollout, *, status: int = 200) -> Response:
    if status != 200:
        return Response(
            rollout_body(rollout), status=status, headers={"ETag": etag_of(rollout_tag(rollout))}
        )
    return etag_response(request, rollout_tag(rollout), rollout_body(rollout))
