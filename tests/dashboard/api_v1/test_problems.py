"""Errors that arise around the API are problems too: in Django, at the body's bound, below it."""

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.api.v1 import reads
from dashboard.asgi import application
from dashboard.live.connection import close_async_client
from dashboard.web import bodies
from tests.dashboard.api_v1.program import PROBLEM, Program, problem
from tests.dashboard.served import post, serving


def test_what_went_wrong_inside_is_not_told(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("a secret of ours")

    monkeypatch.setattr(reads.health, "look", fails)
    program.client.raise_request_exception = False
    assert problem(program.get("status"), 500) == ""


def test_a_method_that_is_none_says_which_are(program: Program) -> None:
    answer = program.ask("PUT", "audit")
    assert problem(answer, 405) == ""
    assert answer["Allow"] == "GET, HEAD"


def test_a_host_that_is_not_ours(settings: Settings, db: None) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    problem(Client(HTTP_HOST="elsewhere").get("/api/v1/groups"), 400)
    page = Client(HTTP_HOST="elsewhere").get("/groups/")
    assert page["Content-Type"].startswith("text/html")


@pytest.mark.django_db(transaction=True)
async def test_a_body_above_its_bound_and_a_nul_in_the_address(store: Any) -> None:
    async with serving(application) as web:
        said = post("/api/v1/groups/g/tokens", b"", b"Content-Type: application/json")
        size = b"Content-Length: %d" % (bodies.FORM_MAX + 1)
        too_large = said.replace(b"Content-Length: 0", size)
        for sent, status in ((too_large, 413), (post("/api/v1/a%00b", b""), 400)):
            found, body = await (await web.open()).ask(sent)
            assert (found, json.loads(body)["status"]) == (status, status)
    await close_async_client()


def test_the_type_is_the_one_of_the_rfc() -> None:
    assert PROBLEM == "application/problem+json"
