"""Rollouts in the API's description."""

from webapp.core.json_schema import (
    OBJECT,
    Schema,
    array,
    body,
    closed,
    flag,
    listed,
    maybe,
    milliseconds,
    moment,
    named,
    number,
    one_of,
    record,
    seconds,
    shape,
    share,
    text,
    whole,
)
from webapp.rollouts.choices import AnalysisState, Guardrail, PauseReason, RolloutState, Verdict
from webapp.rollouts.plan import MAX_SECONDS, MAX_STEPS, RESOLUTION
from webapp.rollouts.state_machine import Move

STATE = one_of(RolloutState.values)
VERDICT = one_of(Verdict.values)
_PAUSE = maybe(one_of(reason for reason in PauseReason.values if reason))
_WEIGHT = number("The canary's share.", minimum=RESOLUTION, maximum=1)
_ARM = shape("RolloutArm", {"version": whole(minimum=1), "variant": maybe(text())})
_STEP_FIELDS: dict[str, Schema] = {
    "weight": _WEIGHT,
    "hold_seconds": seconds("The least time at this share.", maximum=MAX_SECONDS),
    "min_requests": whole("The least requests of the canary at this share.", minimum=0),
    "pause": flag("Stop after this step until a person goes on."),
}
_STEP = shape("RolloutStep", _STEP_FIELDS)
_LIMITS: dict[str, Schema] = {
    "errors": flag("Watch server errors and timeouts."),
    "rejections": flag("Watch rejected requests."),
    "client_faults": flag("Watch requests refused as the client's fault."),
    "latency": flag("Watch requests over the latency limit."),
    "false_stop_budget": number("The chance to stop a canary that is as good as the stable one."),
    "slo_ms": maybe(milliseconds("The latency limit; null: from the stable version's p99.")),
    "hard_stop_errors": whole("So many errors are enough to look at the hard stops.", minimum=1),
    "hard_stop_error_ratio": number("Stop at so many times the stable version's error rate."),
    "hard_stop_error_rate": share("Stop at this error rate."),
    "hard_stop_p99_ratio": number("Stop at so many times the stable version's p99."),
    "p99_min_requests": whole("Before that many requests, no stop for p99."),
    "waiting_limit_seconds": seconds("Pause after so long without enough traffic."),
    "unavailable_limit_seconds": seconds("Roll back after so long without the canary."),
}
_GUARDRAILS = shape("Guardrails", _LIMITS)
_RATE = record({"bad": whole(), "requests": whole(), "rate": maybe(share("bad ÷ requests"))})
_FINDING = shape(
    "Finding",
    {
        "guardrail": one_of(Guardrail.values),
        "title": text(),
        "noun": text(),
        "verdict": VERDICT,
        "progress": number("How near a verdict is, 0 to 1."),
        "log_evidence": number(),
        "log_limit": number("`log_evidence` beyond this stops the rollout."),
        "canary": _RATE,
        "stable": _RATE,
        "text": text("The same as a sentence."),
    },
    "What one guardrail's sequential test says.",
)
_TALLY = shape(
    "Tally",
    {
        "requests": whole(),
        "errors": whole(),
        "rejections": whole(),
        "client_faults": whole(),
        "error_share": maybe(share("(errors + rejections) ÷ requests")),
        "latency_ms": record({name: maybe(milliseconds()) for name in ("p50", "p95", "p99")}),
        "queue_ms": maybe(milliseconds()),
        "compute_ms": maybe(milliseconds()),
        "batch_size": maybe(number()),
    },
    "Counts of one arm; null where nothing is known.",
)
_BOTH = {"canary": _TALLY, "stable": _TALLY}
ROLLOUT = shape(
    "Rollout",
    {
        "id": text(),
        "model": text(),
        "stable": _ARM,
        "canary": _ARM,
        "state": STATE,
        "pause_reason": _PAUSE,
        "step": whole("Index into `steps`.", minimum=0),
        "steps": array(_STEP),
        "guardrails": _GUARDRAILS,
        "verdict": VERDICT,
        "evidence": array(_FINDING),
        "reason": text("Why it is in this state."),
        "weight": share("The canary's share as set now."),
        "generation": whole("Of the traffic table."),
        "shares": record(
            {
                "configured": share("As set."),
                "applied": maybe(share("As every runtime has confirmed.")),
                "observed": maybe(share("As seen in requests of late.")),
            }
        ),
        "sample": record(
            {
                "seen": whole("Requests of the canary in this step."),
                "needed": whole(),
                "seconds_left": maybe(seconds("At today's traffic.")),
                "rate": maybe(number("Requests per second of the model.")),
            }
        ),
        "comparison": record(
            {**_BOTH, "step": record(_BOTH), "slo_ms": maybe(milliseconds())},
            "Both arms over the whole rollout, and over the step.",
        ),
        "held_seconds": seconds("How long this step has held."),
        "actions": array(one_of(Move), "What can be done now."),
        "started_by": maybe(text("A user name.")),
        "created_at": moment(),
        "state_since": moment(),
        "ended_at": maybe(moment()),
        "row_version": whole("Counts the moves."),
    },
)
ROLLOUTS = listed("RolloutPage", ROLLOUT)
ROLLOUT_PLAN = shape(
    "RolloutPlan",
    {
        "model": text(),
        "stable": _ARM,
        "canary": _ARM,
        "steps": array(record({**_STEP_FIELDS, "seconds": maybe(seconds("At today's traffic."))})),
        "guardrails": _GUARDRAILS,
        "rate": maybe(number("Requests per second of the model; null: not known.")),
        "seconds": maybe(seconds("The whole rollout at today's traffic.")),
        "runtimes": array(text()),
        "load_on": array(text(), "Runtimes that would load the canary first."),
        "contract_changes": array(text(), "How inputs and outputs differ."),
        "supersedes": maybe(text("The rollout that would end for this one.")),
    },
    "What a start would do.",
)
_STEP_SENT = named(
    "RolloutStepSent",
    closed(_STEP_FIELDS, ["weight"]),
)
ROLLOUT_NEW = body(
    "RolloutNew",
    {"version": whole("The version to try.", minimum=1)},
    {
        "variant": text("There are no variants yet; leave it out."),
        "steps": array(
            {"anyOf": [_STEP_SENT, _WEIGHT]},
            "Shares that rise; a number is short for a step with that weight.",
            minItems=1,
            maxItems=MAX_STEPS,
        ),
        "guardrails": named("GuardrailsSent", closed(_LIMITS)),
        "bake_seconds": seconds("How long all traffic is watched at the end."),
        "min_requests": whole("For all steps that do not say their own.", minimum=0),
        "allow_contract_change": flag("Although inputs or outputs differ.", default=False),
        "supersede": flag("End the model's active rollout for this one.", default=False),
    },
)
ROLLOUT_MOVE = body("RolloutMove", {}, {"reason": text("For the log.", maxLength=300)})
TRANSITION = shape(
    "RolloutTransition",
    {
        "at": moment(),
        "from": maybe(STATE),
        "to": STATE,
        "pause_reason": _PAUSE,
        "step": whole(),
        "weight": share("The canary's share after it."),
        "generation": whole(),
        "by": text("A user name, or Switchyard itself."),
        "reason": text(),
    },
)
TRANSITIONS = listed("RolloutTransitionPage", TRANSITION)
ANALYSIS = shape(
    "RolloutAnalysis",
    {
        "step": whole(),
        "weight": share("The canary's share in this step."),
        "state": one_of(AnalysisState.values),
        "reason": text(),
        "evidence": array(_FINDING),
        "canary": OBJECT,
        "stable": OBJECT,
        "started_at": moment(),
        "ended_at": maybe(moment()),
    },
)
ANALYSES = listed("RolloutAnalysisPage", ANALYSIS)
