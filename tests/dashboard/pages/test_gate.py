"""Every address and every socket, as they stand in the routes: as each role, as nobody and without
a CSRF token, compared with the matrix.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import URLResolver, get_resolver, reverse
from pytest_django.fixtures import Settings

from dashboard.actions import drafting, plans
from dashboard.actions.roles import (
    BY_TOKEN,
    DOORS,
    OWN,
    PUBLIC,
    Action,
    Door,
    Effect,
    Rights,
    Role,
)
from dashboard.agents.producer_token import ProducerToken
from dashboard.api.v1.doors import DOORS as API_DOORS
from dashboard.evaluation.stored import Evaluation
from dashboard.live import health as live_health
from dashboard.live.connection import close_async_client
from dashboard.models import (
    AgentToken,
    ApprovalRule,
    AttentionLimits,
    AuditEntry,
    Delivery,
    Group,
    Occurrence,
    Plan,
    RebalanceRequest,
    ScaleDown,
    Webhook,
)
from dashboard.push.sockets import websocket_urlpatterns
from dashboard.records import audit, rights
from dashboard.records.audit import By
from dashboard.records.grants import RoleGrant
from dashboard.records.queries import rebalances
from tests.dashboard.agents import FakeAgent, make_group
from tests.dashboard.people import granted, logged_in
from tests.dashboard.scenes import staffed
from tests.dashboard.single_sign_on.flow import configuration
from tests.dashboard.test_sockets import connected

# Who: (effect, role, pattern) each; {} is the name of the group.
PEOPLE: dict[str, list[tuple[str, str, str]]] = {
    "nothing": [],
    **{role.value: [("allow", role.value, "*")] for role in Role},
    "operator of the group": [("allow", "operator", "{}")],
    "admin of the group": [("allow", "admin", "{}")],
    "admin of another group": [("allow", "admin", "another-*")],
    "staged": [("stage", "admin", "*")],
    "denied": [("allow", "admin", "*"), ("deny", "admin", "{}")],
    "hidden": [("allow", "admin", "*"), ("deny", "viewer", "{}")],
    "hidden from a viewer": [("deny", "viewer", "{}")],
    "outside": [("deny", "viewer", "*")],
}


HIDDEN = ("hidden", "hidden from a viewer", "outside")


class Route(NamedTuple):
    name: str
    parts: tuple[str, ...]  # of its address


def routes(
    found: list[Any] | None = None, above: tuple[str, ...] = (), namespace: str = ""
) -> Iterator[Route]:
    for one in get_resolver().url_patterns if found is None else found:
        parts = (*above, *one.pattern.converters)
        if isinstance(one, URLResolver):
            inner = f"{one.namespace}:" if one.namespace else namespace
            yield from routes(one.url_patterns, parts, inner)
        else:
            yield Route(f"{namespace}{one.name}", parts)


def address_of(route: Route, group: Group, user: User) -> str:
    last = group.rebalances.get()
    rows = {"user": user, "scale_down": group.scale_downs.first(), "evaluation_report": run()}
    rows["plan"] = group.plans.first()
    pk = rows[route.name].pk if route.name in rows else 0
    known: dict[str, Any] = {"name": group.name, "number": 0, "member_id": "a", "pk": pk}
    known |= {"page": "concepts", "image": "handover.svg"}
    known |= {"incarnation": last.incarnation, "target_epoch": last.target_epoch}
    return reverse(route.name, kwargs={part: known[part] for part in route.parts})


def run() -> Evaluation:
    values = {"faults": "minor-kill", "coordination": "server", "strategy": "sticky"}
    row, is_new = Evaluation.objects.get_or_create(**values, options={})
    if is_new:
        row.folder.mkdir(parents=True)
        (row.folder / "report.html").write_text("<!doctype html>")
    return row


@pytest.fixture
def addresses(
    group: Group, agents: list[FakeAgent], user: User, tmp_path: Path, settings: Settings
) -> dict[str, str]:
    settings.DATA = tmp_path  # no demo
    ScaleDown.objects.create(
        group=group, members={}, live=1, asked_at_ms=1, ended_at_ms=2, state="done"
    )
    plans.propose(group, drafting.rebalance(group, "averagely", None), By("zed", "page"))
    return {r.name: address_of(r, group, user) for r in routes() if r.name not in API_DOORS}


def people(names: list[str], group: Group) -> Iterator[tuple[str, User, Rights]]:
    for name in names:
        user = User.objects.create(username=f"is-{name.replace(' ', '-')}")
        for effect, role, pattern in PEOPLE[name]:
            granted(user, role, pattern.format(group.name), effect)
        yield name, user, rights.of_user(user)


def kept() -> Any:
    """What nobody who is refused may have changed."""
    tables = (Group, AgentToken, ProducerToken, RebalanceRequest, ScaleDown, Plan, RoleGrant)
    tables += (AttentionLimits, Occurrence, Webhook, Delivery, ApprovalRule)
    rows = [list(table.objects.order_by("pk").values()) for table in tables]
    users = User.objects.order_by("pk").values("username", "password", "is_active")
    return rows, list(users)


def expected(held: Rights, action: Action, group: str | None) -> Effect:
    return held.anywhere(action) if group is None else held.effect(action, group)


def test_each_address_is_in_the_matrix_once() -> None:
    every = [route.name for route in routes()]  # of the API one for each operation of an address
    names = [*(n for n in every if n not in API_DOORS), *API_DOORS.keys() & every]
    assert len(names) == len(set(names))
    in_matrix = [*PUBLIC, *BY_TOKEN, *OWN, *DOORS, *API_DOORS]
    assert len(in_matrix) == len(set(in_matrix))
    assert set(names) == set(in_matrix)


def test_a_page_that_nobody_put_into_the_matrix_opens_to_nobody(
    visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(DOORS, "groups")  # type: ignore[arg-type]
    answer = visitor.get("/groups/")
    assert answer.status_code == 403
    assert "it is not in the matrix" in answer.content.decode()


@pytest.mark.parametrize("configured", [False, True])
def test_nobody_gets_in_anywhere_but_where_it_is_said(
    addresses: dict[str, str], settings: Settings, configured: bool
) -> None:
    if configured:
        settings.SINGLE_SIGN_ON = configuration("http://127.0.0.1:1")
    before = kept()
    for name, address in addresses.items():
        for answer in (Client().get(address), Client().post(address), Client().put(address)):
            if name in PUBLIC:
                assert answer.status_code in (200, 302, 400, 404, 405, 503), address
                assert "/login/?next" not in answer.get("Location", ""), address
            elif name in BY_TOKEN:
                assert answer.status_code in (401, 405), address
            else:
                assert answer.status_code == 302, address
                assert answer["Location"] == f"/login/?next={address}", address
    assert kept() == before


def test_without_a_csrf_token_nothing_is_sent(
    user: User, addresses: dict[str, str], settings: Settings
) -> None:
    settings.SINGLE_SIGN_ON = configuration("http://127.0.0.1:1")
    user.is_superuser = True
    user.save()
    before = kept()
    for address in addresses.values():
        for client in (Client(enforce_csrf_checks=True), logged_in(user, enforce_csrf_checks=True)):
            assert client.post(address).status_code == 403, address
    assert kept() == before


@pytest.mark.parametrize("who", [[n] for n in PEOPLE if n not in HIDDEN])
def test_each_address_opens_as_the_matrix_says(
    addresses: dict[str, str], group: Group, who: list[str]
) -> None:
    for person, user, held in people(who, group):
        client = logged_in(user)
        for name, door in DOORS.items():
            where = group.name if f"/{group.name}/" in addresses[name] else None
            tell = f"{person} at {name}"
            closed = NO_PAGE.get(name, 200)
            _looked_at(client.get(addresses[name]), expected(held, door.looks, where), closed, tell)
            _sent_to(client, addresses[name], door, expected_change(held, door, where), tell)


@pytest.mark.parametrize("who", ["admin", "nothing", "outside"])
def test_no_login_opens_what_a_token_opens(
    addresses: dict[str, str], group: Group, who: str
) -> None:
    ((_, user, _),) = people([who], group)
    client = logged_in(user)
    for name in BY_TOKEN:
        assert client.get(addresses[name]).status_code == 401, name
        assert client.post(addresses[name]).status_code == 405, name


def _needs_attention(group: Group) -> Occurrence:
    values = {"began_at_ms": 1, "seen_at_ms": 2, "raised_at_ms": 2}
    return Occurrence.objects.create(group=group, rule="stalled", why="because", **values)


RULE = {"kinds": "rebalance", "moves_max": "1", "begins": "00:00", "ends": "00:00"}


def forms_of(group: Group) -> dict[str, dict[str, str]]:
    """What is accepted, by the name of the address, and changes what `kept` compares."""
    settings = {n: str(v) for n, v in group.settings.items() if v is not None and v is not False}
    for name in ("stream", "partitions", "strategy_parameters"):
        settings.pop(name)
    made = {"stream": f"new-{group.name}", "partitions": "1", "strategy": "sticky"}
    return {
        "group_settings": settings | {"session_timeout_ms": "7000"},
        "group_attention": {"occurrence": str(_needs_attention(group).pk), "reason": "seen"},
        "rebalance_preview": {"strategy": "averagely", "reason": "why"},
        "tokens": {"do": "create", "name": "mine"},
        "producers": {"do": "create", "stream": group.stream, "name": "mine"},
        "new_group": {"name": f"new-{group.name}", **made},
        "approval_rules": {"do": "create", "name": "mine", "groups": "*", **RULE},
        "users": {"name": "zoe", "password": "an-even-keel-9"},
        "user": {"do": "grant", "effect": "allow", "role": "admin", "pattern": "*"},
    }


@pytest.mark.parametrize("who", [n for n in PEOPLE if n not in HIDDEN])
def test_what_would_be_accepted_is_done_for_those_who_may(
    addresses: dict[str, str], group: Group, who: str
) -> None:
    ((person, user, held),) = people([who], group)
    client = logged_in(user)
    for name, values in forms_of(group).items():
        action, tell = DOORS[name].changes, f"{person} at {name}"
        assert action is not None
        in_group = group.name if f"/{group.name}/" in addresses[name] else None
        effect = held.effect(action, values["name"] if name == "new_group" else in_group)
        before, answer = kept(), client.post(addresses[name], values)
        is_staged = effect is Effect.STAGE and name == "rebalance_preview"
        if effect is Effect.ALLOW or is_staged:
            assert answer.status_code in (200, 302), tell
            assert kept() != before, tell
            assert Plan.objects.filter(state="proposed", proposed_by=user.username).exists() == (
                is_staged
            ), tell
            continue
        assert answer.status_code == 403, tell
        needs = "needs approval" in answer.content.decode()
        assert needs == (effect is Effect.STAGE), tell
        assert kept() == before, tell


def expected_change(held: Rights, door: Door, group: str | None) -> Effect | None:
    return None if door.changes is None else expected(held, door.changes, group)


NO_PAGE = {
    "demo": 404,  # none runs
    **dict.fromkeys(("audit_verify", "adopt_group"), 405),  # it takes a form only
    **dict.fromkeys(("group_map_bytes", "epoch_changes"), 400),  # of which moment?
}


def _looked_at(answer: HttpResponse, effect: Effect, opened: int, tell: str) -> None:
    if effect is Effect.DENY:
        assert answer.status_code == 403, tell
        assert "You may not do this." in answer.content.decode(), tell
    else:
        assert answer.status_code == opened, tell


def _sent_to(client: Client, address: str, door: Door, effect: Effect | None, tell: str) -> None:
    audit.floods.forget()
    denied = AuditEntry.objects.filter(result__startswith="denied")
    before, entries = kept(), denied.count()
    answer = client.post(address)
    assert answer.status_code < 500, tell
    if effect is None:
        assert answer.status_code == 405, tell
    elif effect is Effect.ALLOW:
        assert answer.status_code in (200, 302, 400, 404), tell
    elif effect is Effect.STAGE:
        opens = door.stages or "/groups/" not in address
        assert answer.status_code == 403 or opens, tell
        assert answer.status_code != 403 or "needs approval" in answer.content.decode(), tell
    else:
        assert answer.status_code == 403, tell
        assert denied.count() == entries + 1, tell
    assert kept() == before, tell
    if door.stages:
        asks = client.post(address, {"propose": "1"})
        assert asks.status_code == (403 if effect is Effect.DENY else 200), tell
        assert kept() == before, tell
    if door.previews:
        looks = client.post(address, {door.previews: "1"})
        assert looks.status_code == (403 if effect is Effect.DENY else 200), tell
        assert kept() == before, tell


def shown(answer: Any) -> str:
    """Without the tokens of its forms, which are drawn anew each time."""
    return re.sub(r'(name="csrfmiddlewaretoken" value=)"\w+"', r"\1", answer.content.decode())


@pytest.mark.parametrize("who", HIDDEN)
def test_what_may_not_be_seen_is_not_there(
    addresses: dict[str, str], group: Group, who: str
) -> None:
    ((_, user, _),) = people([who], group)
    client = logged_in(user)
    for name, address in addresses.items():
        if f"/{group.name}/" not in address or name == "adopt_group":
            continue
        unknown = address.replace(group.name, "nobody-made-this")
        for answer, other in (
            (client.get(address), client.get(unknown)),
            (client.post(address), client.post(unknown)),
        ):
            assert answer.status_code == other.status_code, name
            assert answer.status_code in (404, 405), name
            if who != "outside" and answer.status_code == 404:
                same = shown(other).replace("nobody-made-this", group.name)
                assert shown(answer) == same, name
    for name in ("overview", "groups", "groups_csv", "audit", "audit_csv"):
        answer = client.get(addresses[name])
        closed = who == "outside" or (who == "hidden from a viewer" and "audit" in name)
        assert answer.status_code == (403 if closed else 200)
        assert group.name not in answer.getvalue().decode(), name
    tried = AuditEntry.objects.filter(action="see", group=group.name)
    assert {entry.actor for entry in tried} == {user.username}


def test_a_form_of_ones_own_page_asks_for_the_very_group(
    addresses: dict[str, str], group: Group
) -> None:
    """/new-group/ has no group in its address."""
    ((_, user, _),) = people(["admin of another group"], group)
    values = {"name": f"mine-{group.name}", "stream": "s", "partitions": 1, "strategy": "sticky"}
    answer = logged_in(user).post("/new-group/", values)
    assert answer.status_code == 403
    assert "To make a group takes the role admin in group" in answer.content.decode()
    assert not Group.objects.filter(name=values["name"]).exists()


# --- sockets --------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("who", "code"),
    [("nothing", 0), ("auditor", 0), ("hidden", 4404), ("outside", 4404), ("", 4403)],
)
async def test_a_socket_opens_as_the_matrix_says(group: Group, who: str, code: int) -> None:
    found = [str(r.pattern) for r in websocket_urlpatterns if r.pattern.converters]
    assert found == ["ws/group/<str:name>/"], "each route that names something is tried here"
    cookie = await sync_to_async(cookie_of)(who, group) if who else ""
    socket = await connected(group.name, cookie)
    assert socket is not None
    if code:
        assert await socket.closed() == code
    else:
        assert '"hello"' in await socket.texts()
    await socket.leave()
    await close_async_client()


def cookie_of(who: str, group: Group) -> str:
    ((_, user, _),) = people([who], group)
    return f"sessionid={logged_in(user).cookies['sessionid'].value}"


@pytest.mark.django_db(transaction=True)
async def test_a_socket_of_a_group_that_is_not_there_is_closed(group: Group) -> None:
    cookie = await sync_to_async(cookie_of)("admin", group)
    socket = await connected("nobody-made-this", cookie)
    assert socket is not None
    assert await socket.closed() == 4404
    await socket.leave()


@pytest.mark.parametrize("who", ["hidden", "hidden from a viewer"])
def test_lists_leave_out_what_is_hidden_and_keep_the_rest(
    addresses: dict[str, str], group: Group, group_name: str, who: str
) -> None:
    """Both groups have members and history: no list is empty."""
    other = make_group(f"open-{group_name}")
    staffed(other, "c")
    ((_, user, held),) = people([who], group)
    client = logged_in(user)
    shown = {name: client.get(addresses[name]) for name in ("overview", "groups", "groups_csv")}
    for name, answer in shown.items():
        page = answer.getvalue().decode()
        assert other.name in page, name
        assert group.name not in page.replace(other.name, ""), name
    assert shown["overview"].context["hour"] == other.rebalances.count() > 0
    assert group.rebalances.exists()
    assert {row.first.group for row in rebalances.recent(50, held)} == {other}
    for name in (group.name, other.name):
        live_health.note_look(name, is_well=False)
    live_health.stamp_tick(3)
    page = client.get(addresses["status"]).content.decode()
    assert f"for 2 of 3 groups ({other.name})" in page
    assert client.get(addresses["producers"]).status_code == 403, "it lists streams of all"
    assert addresses["producers"] not in shown["overview"].getvalue().decode()


@pytest.mark.parametrize("name", ["a%00b", "a" * 101, "%E2%80%AE", "a b"])
def test_what_cannot_be_a_name_is_no_group(visitor: Client, viewer: Client, name: str) -> None:
    for address in (f"/groups/{name}/", f"/groups/{name}/settings/", f"/adopt-group/{name}/"):
        for client in (visitor, viewer):
            assert client.post(address).status_code in (404, 405), address
    assert not AuditEntry.objects.filter(result__startswith="denied").exists()
