"""A small named world: admin Ada, operator Olga, viewer Vic, and clients that act as them."""

from dataclasses import dataclass, field
from typing import Any

from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts.choices import Role
from webapp.accounts.models import User
from webapp.accounts.services import token_issue
from webapp.jobs.claims import Claim
from webapp.jobs.models import Job
from webapp.jobs.services import job_claim

PASSWORD = "correct horse battery"


@dataclass
class World:
    ada: User  # admin
    olga: User  # operator
    vic: User  # viewer
    _tokens: dict[str, str] = field(default_factory=dict)

    @classmethod
    def build(cls) -> "World":
        def person(name: str, role: Role) -> User:
            return User.objects.create_user(username=name, password=PASSWORD, role=role)

        return cls(
            ada=person("ada", Role.ADMIN),
            olga=person("olga", Role.OPERATOR),
            vic=person("vic", Role.VIEWER),
        )

    def user(self, role: str) -> User:
        return {"admin": self.ada, "operator": self.olga, "viewer": self.vic}[role]

    def token(self, role: str) -> str:
        """A bearer token of the person with this role; the same one each time."""
        if role not in self._tokens:
            user = self.user(role)
            _, self._tokens[role] = token_issue(user=user, name=f"test {role}", actor=user)
        return self._tokens[role]

    def client(self, role: str | None = "operator") -> Client:
        """A browser, signed in. None: a stranger."""
        client = Client()
        if role is not None:
            client.force_login(self.user(role))
        return client

    def api_client(self, role: str | None = "operator") -> APIClient:
        """A script with a token, speaking JSON. None: without a token."""
        client = APIClient()
        client.default_format = "json"
        client.raise_request_exception = False
        if role is not None:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.token(role)}")
        return client


def claim_of(job: Job) -> Claim:
    """The job, as a worker holds it."""
    claim = job_claim(job_id=job.id, worker="test")
    assert claim is not None
    return claim


def assert_problem(response: Any, status: int, reason: str) -> dict[str, Any]:
    """Every refusal of the API has this one shape."""
    assert response.status_code == status, response.content
    assert response["Content-Type"].startswith("application/problem+json")
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["reason"] == reason, body
    assert body["title"]
    assert body["detail"]
    assert body["request_id"] == response["X-Request-Id"]
    return body
