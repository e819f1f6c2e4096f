"""People and the tokens their scripts carry."""

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone

from webapp.accounts.choices import Role


class User(AbstractUser):
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.VIEWER)
    token_shown = ""  # of the request at hand: the token it came with, for the audit log


class ApiToken(models.Model):
    """A bearer token. Only its SHA-256 is kept; the token is shown once, when issued."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens"
    )
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=12)  # the first characters, to tell tokens apart
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"


class LoginFailure(models.Model):
    """Wrong passwords for one user name from one address; the key is a hash of both."""

    key = models.CharField(max_length=64, unique=True)
    count = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(default=timezone.now)
    locked_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.count} failures"
