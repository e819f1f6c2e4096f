"""Who changed what, when, from what to what. Rows are only ever added."""

from typing import ClassVar

from django.conf import settings
from django.db import models


class AuditEvent(models.Model):
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    actor_name = models.CharField(max_length=150)  # survives the account; "system" for our own acts
    token = models.CharField(max_length=120, blank=True)  # the API token the actor came with
    cause = models.CharField(max_length=200, blank=True)  # API path of the work this is part of
    action = models.CharField(max_length=60, db_index=True)  # entity.verb, such as rollout.promote
    target = models.CharField(
        max_length=200, db_index=True
    )  # path of what changed: models/resnet50
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.actor_name} {self.action} {self.target}"
