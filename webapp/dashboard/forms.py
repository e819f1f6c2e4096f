"""Filters of the audit page."""

from django import forms


class AuditForm(forms.Form):
    target = forms.CharField(required=False, help_text="A path or its start: models/resnet50")
    action = forms.CharField(required=False, help_text="Such as rollout.promote")
    actor = forms.CharField(required=False, label="Who")
