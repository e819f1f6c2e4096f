"""Rollouts: what was planned, where each stands, what was learned, and every move with its reason."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from webapp.catalog.models import InferenceModel, ModelVersion
from webapp.core.models import TimestampedModel, public_id
from webapp.rollouts.choices import AnalysisState, PauseReason, RolloutState, Verdict
from webapp.rollouts.evidence import Evidence
from webapp.rollouts.plan import Plan, Step, plan_of
from webapp.rollouts.state_machine import ACTIVE_STATES, TERMINAL_STATES


def _new_id() -> str:
    return public_id("ro")


class Rollout(TimestampedModel):
    """`row_version` moves with every state, step or share, `sample_cursor` with every measurement
    taken in. Writers name the value they read; no row changed means somebody else was faster."""

    id = models.CharField(primary_key=True, max_length=20, default=_new_id, editable=False)
    model = models.ForeignKey(InferenceModel, on_delete=models.CASCADE, related_name="rollouts")
    stable = models.ForeignKey(ModelVersion, on_delete=models.RESTRICT, related_name="+")
    canary = models.ForeignKey(ModelVersion, on_delete=models.RESTRICT, related_name="+")
    steps = models.JSONField()  # [{"weight","hold_seconds","min_requests","pause"}]
    guardrails = models.JSONField()
    state = models.CharField(
        max_length=12, choices=RolloutState.choices, default=RolloutState.PENDING
    )
    pause_reason = models.CharField(max_length=20, choices=PauseReason.choices, blank=True)
    outcome = models.CharField(  # where ROLLING_BACK ends
        max_length=12, choices=RolloutState.choices, default=RolloutState.ROLLED_BACK
    )
    step = models.PositiveIntegerField(default=0)  # index into `steps`
    weight = models.FloatField(default=0.0)  # the canary's configured share now
    verdict = models.CharField(max_length=12, choices=Verdict.choices, default=Verdict.WAITING)
    reason = models.CharField(max_length=500, blank=True)  # why it is where it is
    row_version = models.PositiveIntegerField(default=1)

    salt = models.CharField(max_length=40)  # a new draw for each rollout
    generation = models.PositiveIntegerField(default=0)  # of the traffic table it last set
    weights = models.JSONField(default=dict)  # generation → the canary's share in it
    evidence = models.JSONField(default=dict)
    sample_cursor = models.BigIntegerField(default=0)  # last serving sample taken in
    measured_at = models.DateTimeField(null=True)  # end of the newest interval taken in
    in_flight = models.PositiveIntegerField(default=0)
    held_seconds = models.FloatField(default=0.0)  # watched at this step, share applied
    ticked_at = models.DateTimeField(null=True)

    state_since = models.DateTimeField()
    step_since = models.DateTimeField()  # when the step's share was set
    applied_at = models.DateTimeField(null=True)  # when every runtime had confirmed it
    canary_down_since = models.DateTimeField(null=True)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]
        indexes: ClassVar = [models.Index(fields=["state"])]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["model"],
                condition=models.Q(state__in=sorted(ACTIVE_STATES)),
                name="one_active_rollout_per_model",
            )
        ]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.stable.number} → v{self.canary.number}"

    @property
    def plan(self) -> Plan:
        return plan_of(self.steps, self.guardrails)

    @property
    def current_step(self) -> Step:
        return self.plan.steps[self.step]

    @property
    def learned(self) -> Evidence:
        return Evidence.from_json(self.evidence)

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def is_promoted(self) -> bool:
        """The new version is what clients get when nothing else happens."""
        return self.state in {
            RolloutState.PROMOTING,
            RolloutState.BAKING,
            RolloutState.SUCCEEDED,
        }

    @property
    def api_path(self) -> str:
        return f"models/{self.model.name}/rollouts/{self.id}"


class RolloutTransition(models.Model):
    """One move of a rollout. The list of them is its history."""

    at = models.DateTimeField()
    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="transitions")
    from_state = models.CharField(max_length=12, blank=True)
    to_state = models.CharField(max_length=12)
    pause_reason = models.CharField(max_length=20, blank=True)
    step = models.PositiveIntegerField()
    weight = models.FloatField()
    generation = models.PositiveIntegerField(default=0)
    actor_name = models.CharField(max_length=150)  # "system" for its own decisions
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.from_state} → {self.to_state}"


class AnalysisRun(models.Model):
    """What one step showed: opened when its share is set, closed when the rollout leaves it."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="analyses")
    step = models.PositiveIntegerField()
    weight = models.FloatField()
    state = models.CharField(
        max_length=12, choices=AnalysisState.choices, default=AnalysisState.RUNNING
    )
    reason = models.CharField(max_length=500, blank=True)
    findings = models.JSONField(default=list)
    canary = models.JSONField(default=dict)  # counts of the step
    stable = models.JSONField(default=dict)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"step {self.step} of {self.rollout_id}: {self.state}"


class EvidencePoint(models.Model):
    """Where the evidence stood at a moment: 0 is none, 1 the limit that stops the rollout."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="evidence_points")
    at = models.DateTimeField()
    step = models.PositiveIntegerField()
    values = models.JSONField()  # guardrail → log evidence / log limit
    canary_requests = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["at"]
        indexes: ClassVar = [models.Index(fields=["rollout", "at"])]

    def __str__(self) -> str:
        return f"{self.rollout_id} at {self.at}"
