"""Who is let in to the API: tokens, scopes and the matrix, at every address."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from dashboard.actions import api_tokens
from dashboard.actions.roles import EVERYTHING, OF_NO_GROUP, Action, Denied, Effect, Rights
from dashboard.api.v1 import doors
from dashboard.api.v1.doors import DOORS
from dashboard.models import AuditEntry, AuditSource, Group, PersonToken
from dashboard.records import audit, rights
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent
from tests.dashboard.api_v1.program import Program, problem, read, token_of
from tests.dashboard.pages.test_gate import HIDDEN, PEOPLE, kept, people, routes
from tests.dashboard.people import logged_in

METHODS = ("GET", "POST", "PATCH", "DELETE")


@pytest.fixture
def addresses(group: Group, agents: list[FakeAgent]) -> dict[str, str]:
    """Below /api/v1/, with keys of rows that are not there: nobody changes anything."""
    known = {"name": group.name, "number": 99, "pk": 0, "incarnation": 0, "target_epoch": 0}
    found = {}
    for route in routes():
        if route.name in DOORS:
            parts = {part: known[part] for part in route.parts}
            found[route.name] = reverse(route.name, kwargs=parts).removeprefix("/api/v1/")
    return found


def asked(program: Program, address: str) -> Iterator[tuple[str, Any]]:
    for method in METHODS:
        yield method, program.ask(method, address, None if method == "GET" else {"no": 1})


@pytest.mark.parametrize("said", ["", "Bearer", "Bearer eku_wrong", "Basic x", "eku_wrong"])
def test_without_a_token_every_address_is_closed(addresses: dict[str, str], said: str) -> None:
    program, before = Program(), kept()
    program.headers = {"Authorization": said} if said else {}
    for address in addresses.values():
        for method, answer in asked(program, address):
            assert "Authorization: Bearer" in problem(answer, 401), (method, address)
            assert answer["WWW-Authenticate"] == "Bearer"
    assert kept() == before


def test_a_session_of_a_browser_opens_nothing(ann: User, addresses: dict[str, str]) -> None:
    for client in (logged_in(ann), logged_in(ann, enforce_csrf_checks=True)):
        for address in addresses.values():
            assert client.get(f"/api/v1/{address}").status_code == 401
            if address:  # the root takes no form at all
                assert client.post(f"/api/v1/{address}").status_code == 401


def test_a_token_opens_no_page(ann: User, group: Group) -> None:
    headers = {"Authorization": f"Bearer {token_of(ann).text}"}
    assert Client().get("/groups/", headers=headers).status_code == 302


@pytest.mark.parametrize("who", [n for n in PEOPLE if n not in HIDDEN])
def test_each_address_opens_as_the_matrix_says(
    addresses: dict[str, str], group: Group, who: str
) -> None:
    ((_, user, held),) = people([who], group)
    program, before = Program.of(user), kept()
    for name, door in DOORS.items():
        where = group.name if group.name in addresses[name] else None
        for method, answer in asked(program, addresses[name]):
            looks = method == "GET" or door.previews
            action = door.looks if looks else door.changes
            looks = looks or door.stages
            tell = f"{method} {name} by {who}: {answer.content!r}"
            audit.floods.forget()
            if action is None:
                assert answer.status_code == 405, tell
            elif is_open(held, action, where, looks=bool(looks)):
                assert answer.status_code in (200, 404, 405, 422), tell
            else:
                assert f"to {action.value}" in problem(answer, 403), tell
    assert kept() == before


def is_open(held: Rights, action: Action, group: str | None, *, looks: bool) -> bool:
    """In a group a change takes the right itself; what is done without one asks again."""
    effect = held.anywhere(action) if group is None else held.effect(action, group)
    is_staged = effect is Effect.STAGE
    no_group = group is None and action in OF_NO_GROUP
    return effect is Effect.ALLOW or (is_staged and (looks or (group is None and not no_group)))


@pytest.mark.parametrize("who", HIDDEN)
def test_a_group_that_is_hidden_is_not_there(
    addresses: dict[str, str], group: Group, who: str
) -> None:
    ((_, user, _),) = people([who], group)
    program = Program.of(user)
    for address in addresses.values():
        if group.name not in address or address.endswith("/adopt"):
            continue
        for method, answer in asked(program, address):
            unknown = address.replace(group.name, "nobody-made-this")
            other = dict(asked(program, unknown))[method]
            assert answer.status_code == other.status_code, (method, address)
            if who != "outside" and answer.status_code == 404:
                said = problem(other, 404).replace("nobody-made-this", group.name)
                assert problem(answer, 404) == said
    assert group.name not in program.get("groups").content.decode()


def test_the_rights_are_those_that_scopes_and_grants_have_in_common(group: Group) -> None:
    ((_, user, _),) = people(["operator"], group)
    narrow = Program.of(user, Action.SCALE_DOWN, Action.CHANGE_SETTINGS)
    path = f"groups/{group.name}"
    said = problem(narrow.post(f"{path}/rebalances"), 403)
    assert said == "to rebalance takes a token with the scope rebalance"
    said = problem(narrow.ask("PATCH", f"{path}/settings", {"settings": {}}), 403)
    assert said.startswith("to change settings takes the role admin")
    assert read(narrow.get(path))["allowed_actions"] == ["see", "scale_down"]
    entry = AuditEntry.objects.filter(result__startswith="denied").last()
    assert entry is not None
    assert (entry.actor, entry.source, entry.action) == (user.username, "api", "rebalance")


@pytest.mark.parametrize("action", list(Action))
def test_a_scope_takes_from_whatever_may_everything(action: Action) -> None:
    held = Rights(EVERYTHING.grants, frozenset({Action.SEE}))
    open_to = action is Action.SEE
    assert held.may(action, "g") is held.may(action, None) is open_to
    assert (held.anywhere(action) is Effect.ALLOW) is open_to
    assert (held.scope(action).within is None) is open_to
    if not open_to:
        with pytest.raises(Denied, match=f"takes a token with the scope {action.key}"):
            held.check(action, "g")


@pytest.mark.parametrize("ended", ["revoked", "expired", "deactivated"])
def test_what_ended_opens_nothing_and_is_on_record(ann: User, ended: str) -> None:
    made = token_of(ann)
    program = Program(made.text)
    assert program.get("groups").status_code == 200
    if ended == "revoked":
        api_tokens.revoke(made.token, By("ann", AuditSource.PAGE))
    elif ended == "expired":
        PersonToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    else:
        User.objects.update(is_active=False)
    problem(program.get("groups"), 401)
    entry = AuditEntry.objects.get(action="use API token")
    assert (entry.actor, entry.object) == ("ann", "API token ann/t")
    assert ended in entry.result


def test_the_last_use_is_kept_once_a_minute(program: Program) -> None:
    assert PersonToken.objects.get().last_used_at is None
    program.get("groups")
    first = PersonToken.objects.get().last_used_at
    assert first is not None
    program.get("groups")
    assert PersonToken.objects.get().last_used_at == first
    PersonToken.objects.update(last_used_at=first - timedelta(minutes=2))
    program.get("groups")
    found = PersonToken.objects.get().last_used_at
    assert found is not None and found >= first


def test_only_so_many_requests_of_a_second_are_answered(
    ann: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.API_RATE_PER_SECOND = 3
    monkeypatch.setattr(doors.time, "time", lambda: 1_000.5)  # type: ignore[attr-defined]
    two = [Program.of(ann), Program.of(ann)]  # tokens of one person share it
    answers = [two[n % 2].get("groups") for n in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert "your 3 requests" in problem(answers[-1], 429)
    assert answers[-1]["Retry-After"] == "1"
    monkeypatch.setattr(doors.time, "time", lambda: 1_001.5)  # type: ignore[attr-defined]
    assert two[0].get("groups").status_code == 200


def test_plain_http_is_refused_and_not_sent_on(program: Program, settings: Settings) -> None:
    settings.DEVELOPMENT, settings.SECURE_SSL_REDIRECT = False, True
    assert "HTTPS" in problem(program.get("groups"), 403)
    answer = program.client.get("/api/v1/groups", headers=program.headers, secure=True)
    assert answer.status_code == 200


def test_the_document_is_open_to_all_and_the_rest_is_not_there(db: None) -> None:
    document = json.loads(Client().get("/api/v1/openapi.json").content)
    assert document["openapi"].startswith("3.1")
    problem(Client().get("/api/v1/nothing"), 404)
    problem(Client().get("/api/v1/groups/"), 404)


def test_each_operation_is_an_address_of_the_matrix() -> None:
    named = {route.name for route in routes() if route.name.startswith("v1:")}
    assert named == {*DOORS, "v1:openapi-json"}


def test_an_address_that_nobody_put_into_the_matrix_opens_to_nobody(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(DOORS, "v1:groups")
    assert "it is not in the matrix" in problem(program.get("groups"), 403)


def test_rights_are_read_anew_for_each_request(ann: User, program: Program, group: Group) -> None:
    assert program.post(f"groups/{group.name}/rebalances").status_code == 202
    User.objects.update(is_superuser=False)
    assert rights.of_user(User.objects.get()) == Rights()
    problem(program.post(f"groups/{group.name}/rebalances"), 403)
