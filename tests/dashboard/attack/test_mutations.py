"""What is sent as mutated requests: every route, by a seed, at what has a rule of its own."""

import json
import random
import re
from typing import Any
from urllib.parse import quote, unquote

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import override_settings
from django.urls import get_resolver, path, resolve

from dashboard.evaluation.attack import mutated, mutations, routes
from dashboard.evaluation.attack.mutations import Mutations
from dashboard.evaluation.attack.routes import Page
from dashboard.evaluation.attack.target import NotJudged
from tests.dashboard.attack.systems import target_at
from tests.dashboard.people import logged_in

urlpatterns = [path("a-new-one/<int:number>/", lambda request, number: HttpResponse(), name="new")]


def test_the_same_seed_makes_the_same_requests() -> None:
    def made(seed: int) -> list[Any]:
        of = Mutations(random.Random(seed))
        good = mutated.messages("g")["heartbeat"]()
        forms = [of.form({"a": "1", "b": "2"}) for _ in range(20)]
        return [of.message(good) for _ in range(50)] + forms + [of.query(["a"], ["1"]), of.frame()]

    assert made(1) == made(1) != made(2)
    documents = [m for m in made(3)[:50] if _is_object(m)]
    assert 10 < len(documents) < 50, "some are JSON, some are not"
    assert len(set(made(3)[:50])) > 45


@pytest.mark.django_db
def test_requests_aim_at_what_is_read_by_a_rule_of_its_own() -> None:
    """So many as a route is sent reach each of them."""
    of = Mutations(random.Random(1))
    asked = [of.query(["actor", "from", "to", "object", "group", "result"], []) for _ in range(300)]
    for moment in mutations.MOMENTS:
        assert any(f"from={quote(moment, safe='')}" in one for one in asked), moment
    boss = User.objects.create_superuser("boss")
    client = logged_in(boss, raise_request_exception=False)
    found = [one for one in asked if client.get(f"/audit/{one}").status_code >= 500]
    assert found == []
    good = {"strategy": "", "strategy_parameters": "", "reason": ""}
    forms = [of.form(good) for _ in range(300)]
    for text in mutations.PARAMETERS:
        aimed = f"strategy=config&strategy_parameters={quote(text, safe='')}&reason=x"
        assert any(aimed.encode() in one for one in forms), text


def _is_object(message: bytes) -> bool:
    try:
        return isinstance(json.loads(message), dict)
    except (ValueError, RecursionError):
        return False


def test_every_route_is_attacked() -> None:
    known = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    assert {page.name for page in routes.pages()} == known
    assert set(routes.verbs()) == mutated.messages("g").keys()
    assert "ws/group/<str:name>/" in routes.sockets()
    with override_settings(ROOT_URLCONF=__name__):
        assert routes.pages() == [Page("new", {"number": "int"})]


def test_mutated_addresses_stay_those_of_their_page() -> None:
    of = Mutations(random.Random(1))
    for page in routes.pages():
        for _ in range(20):
            assert resolve(unquote(page.path("g", of))).url_name == page.name
    made = {routes.socket_path("ws/group/<str:name>/", "g", of) for _ in range(50)}
    assert len(made) > 5
    assert all(re.fullmatch(r"/ws/group/[^/]+/", unquote(one), re.DOTALL) for one in made)


def test_a_new_verb_without_a_good_message_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "verbs", lambda: ["join", "vote"])
    with pytest.raises(NotJudged, match="no good message is known for vote"):
        mutated.agents(target_at(1))
