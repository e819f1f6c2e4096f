"""REST: start, watch and steer rollouts."""

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.models import User
from webapp.accounts.permissions import Action, actor_of
from webapp.catalog.selectors import model_get, version_get
from webapp.core.api import (
    ApiView,
    IfMatch,
    body_of,
    call,
    check_if_match,
    filtered,
    ordered,
    page,
    tagged,
    tried,
    validate_only,
)
from webapp.core.errors import InvalidInput
from webapp.rollouts import schema
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
    write_action = Action.ROLLOUT

    @call(
        "listRollouts",
        schema.ROLLOUTS,
        paged=True,
        filters=_FILTERS,
        orders=_ORDERS,
        query={"state": schema.STATE, "verdict": schema.VERDICT},
        below_model=True,
    )
    def get(self, request: Request, name: str | None = None) -> Response:
        """List rollouts, newest first."""
        rows = rollout_list()
        if name is not None:
            rows = rows.filter(model=model_get(name=name))
        rows = ordered(filtered(rows, request, _FILTERS), request, _ORDERS)
        return page(rows, request, rollout_body)


class ModelRollouts(RolloutCollection):
    @call(
        "startRollout",
        schema.ROLLOUT,
        status=201,
        body=schema.ROLLOUT_NEW,
        dry_run=schema.ROLLOUT_PLAN,
        tagged=True,
        refusal="INVALID_ROLLOUT",
        example={
            "version": 4,
            "steps": [
                {"weight": 0.05, "hold_seconds": 600, "min_requests": 300},
                {"weight": 0.5, "hold_seconds": 900},
            ],
            "guardrails": {"slo_ms": 50},
        },
    )
    def post(self, request: Request, name: str) -> Response:
        """Start a rollout; the number of the version is enough.

        With ?validate_only=true the answer is the plan and the time it would take.
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
        answer = _shown(rollout, status=201)
        answer["Location"] = f"/api/v1/{rollout.api_path}"
        return answer


class RolloutItem(ApiView):
    @call("getRollout", schema.ROLLOUT, tagged=True, below_model=True)
    def get(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        """Read a rollout: state, shares, evidence, comparison and what can be done with it now."""
        return _shown(rollout_get(rollout_id=rollout_id, model_name=name))


class RolloutHistory(ApiView):
    @call("listTransitions", schema.TRANSITIONS, paged=True, below_model=True)
    def get(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        """List every move of a rollout, newest first."""
        rollout = rollout_get(rollout_id=rollout_id, model_name=name)
        return page(rollout.transitions.all(), request, transition_body)


class RolloutAnalysis(ApiView):
    @call("listAnalyses", schema.ANALYSES, paged=True, below_model=True)
    def get(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        """List what each step showed, oldest first."""
        rollout = rollout_get(rollout_id=rollout_id, model_name=name)
        return page(rollout.analyses.all(), request, analysis_body)


class RolloutAction(ApiView):
    write_action = Action.ROLLOUT
    move: Move = Move.PAUSE  # as_view sets it

    @call(
        "{move}Rollout",
        schema.ROLLOUT,
        body=schema.ROLLOUT_MOVE,
        dry_run=schema.ROLLOUT,
        if_match=IfMatch.TAKEN,
        tagged=True,
        below_model=True,
        example={"reason": "looking at the latency first"},
    )
    def post(self, request: Request, rollout_id: str, name: str | None = None) -> Response:
        """Ask a rollout to {move}.

        With ?validate_only=true the answer is the rollout as it would be; nothing moves.
        """
        rollout = rollout_get(rollout_id=rollout_id, model_name=name)
        check_if_match(request, rollout_tag(rollout))
        actor, reason = actor_of(request), _reason(request)

        def moved() -> Rollout:
            return act(self.move, rollout=rollout, actor=actor, reason=reason)

        return tried(lambda: rollout_body(moved())) if validate_only(request) else _shown(moved())


def act(move: Move, *, rollout: Rollout, actor: User, reason: str) -> Rollout:
    return _SERVICES[move](rollout=rollout, actor=actor, reason=reason)


def _reason(request: Request) -> str:
    reason: str = body_of(request).get("reason") or ""
    if len(reason) > 300:
        raise InvalidInput(
            "reason: a text of at most 300 characters is expected.", reason="BAD_PARAMETER"
        )
    return reason


def _shown(rollout: Rollout, *, status: int = 200) -> Response:
    return tagged(rollout_tag(rollout), rollout_body(rollout), status=status)
