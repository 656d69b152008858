"""A program that uses the API with a person's token."""

import json
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from dashboard.actions import api_tokens
from dashboard.actions.roles import Action
from dashboard.api.v1.doors import SCOPES
from dashboard.models import AuditSource
from dashboard.records.audit import By
from dashboard.web.problems import API

PROBLEM = "application/problem+json"


def token_of(user: User, *scopes: Action, days: int = 7) -> api_tokens.MadeApiToken:
    """For everything, unless scopes are said."""
    by = By(user.username, AuditSource.PAGE)
    until = timezone.now() + timedelta(days=days)
    return api_tokens.create(user, by, name="t", scopes=scopes or SCOPES, expires_at=until)


class Program:
    def __init__(self, text: str = "", **client: Any) -> None:
        self.client = Client(**client)
        self.headers = {"Authorization": f"Bearer {text}"} if text else {}

    @classmethod
    def of(cls, user: User, *scopes: Action) -> "Program":
        return cls(token_of(user, *scopes).text)

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str = "", **query: Any
    ) -> HttpResponse:
        headers = self.headers | ({"Idempotency-Key": key} if key else {})
        more: dict[str, Any] = {"headers": headers, "query_params": query}
        if body is not None:
            more |= {"data": json.dumps(body), "content_type": "application/json"}
        answer: HttpResponse = self.client.generic(method, f"{API}{path}", **more)
        return answer

    def get(self, path: str, **query: Any) -> HttpResponse:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any = None, **more: Any) -> HttpResponse:
        return self.ask("POST", path, {} if body is None else body, **more)


def read(answer: HttpResponse, status: int = 200) -> Any:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"].startswith("application/json")
    return json.loads(answer.content)


def problem(answer: HttpResponse, status: int) -> str:
    """Its sentence."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == PROBLEM
    found = json.loads(answer.content)
    assert found["status"] == status and found["title"]
    return str(found.get("detail", ""))
