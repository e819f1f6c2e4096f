"""States of a rollout, reasons to pause it, verdicts on a canary, and the guardrails that judge it."""

from django.db import models


class RolloutState(models.TextChoices):
    PENDING = "PENDING"
    INITIALIZING = "INITIALIZING"
    PROGRESSING = "PROGRESSING"
    PAUSED = "PAUSED"
    PROMOTING = "PROMOTING"
    BAKING = "BAKING"
    ROLLING_BACK = "ROLLING_BACK"
    SUCCEEDED = "SUCCEEDED"
    ROLLED_BACK = "ROLLED_BACK"
    ABORTED = "ABORTED"
    SUPERSEDED = "SUPERSEDED"
    FAILED = "FAILED"


class PauseReason(models.TextChoices):
    NONE = ""
    STEP_PAUSE = "STEP_PAUSE"
    WAITING_APPROVAL = "WAITING_APPROVAL"
    WAITING_FOR_TRAFFIC = "WAITING_FOR_TRAFFIC"
    INCONCLUSIVE = "INCONCLUSIVE"
    MANUAL = "MANUAL"
    FREEZE_WINDOW = "FREEZE_WINDOW"
    CANARY_UNAVAILABLE = "CANARY_UNAVAILABLE"
    METRICS_STALE = "METRICS_STALE"
    OUTSIDE_CHANGE = "OUTSIDE_CHANGE"


class Verdict(models.TextChoices):
    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    WAITING = "WAITING"


class AnalysisState(models.TextChoices):
    """The set Argo uses, unchanged, so that people can carry their knowledge over."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"


class Guardrail(models.TextChoices):
    """Classes of events that should not happen. Each has its own sequential test."""

    ERRORS = "errors", "Server errors and timeouts"
    REJECTIONS = "rejections", "Rejected requests"
    CLIENT_FAULTS = "client_faults", "Requests refused as the client's fault"
    LATENCY = "latency", "Requests over the latency limit"
