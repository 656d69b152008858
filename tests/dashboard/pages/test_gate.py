"""Every address and every socket, as they stand in the routes: as each role, as nobody and without
a CSRF token, compared with the matrix.
"""

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

from dashboard.actions.roles import DOORS, OWN, PUBLIC, Action, Door, Effect, Rights, Role
from dashboard.live.connection import close_async_client
from dashboard.models import AgentToken, AuditEntry, Group, RebalanceRequest, ScaleDown
from dashboard.push.sockets import websocket_urlpatterns
from dashboard.records import audit, rights
from dashboard.records.grants import RoleGrant
from tests.dashboard.agents import FakeAgent, make_group
from tests.dashboard.people import granted, logged_in
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


def routes(found: list[Any] | None = None, above: tuple[str, ...] = ()) -> Iterator[Route]:
    for one in get_resolver().url_patterns if found is None else found:
        parts = (*above, *one.pattern.converters)
        if isinstance(one, URLResolver):
            yield from routes(one.url_patterns, parts)
        else:
            yield Route(one.name, parts)


def address_of(route: Route, group: Group, user: User) -> str:
    last = group.rebalances.get()
    known: dict[str, Any] = {"name": group.name, "number": 0, "pk": user.pk}
    known |= {"incarnation": last.incarnation, "target_epoch": last.target_epoch}
    return reverse(route.name, kwargs={part: known[part] for part in route.parts})


@pytest.fixture
def addresses(
    group: Group, agents: list[FakeAgent], user: User, tmp_path: Path, settings: Settings
) -> dict[str, str]:
    settings.DATA = tmp_path  # no demo, no runs
    return {r.name: address_of(r, group, user) for r in routes()}


def people(names: list[str], group: Group) -> Iterator[tuple[str, User, Rights]]:
    for name in names:
        user = User.objects.create(username=f"is-{name.replace(' ', '-')}")
        for effect, role, pattern in PEOPLE[name]:
            granted(user, role, pattern.format(group.name), effect)
        yield name, user, rights.of_user(user)


def kept() -> Any:
    """What nobody who is refused may have changed."""
    tables = (Group, AgentToken, RebalanceRequest, ScaleDown, RoleGrant)
    rows = [list(table.objects.order_by("pk").values()) for table in tables]
    users = User.objects.order_by("pk").values("username", "password", "is_active")
    return rows, list(users)


def expected(held: Rights, action: Action, group: str | None) -> Effect:
    return held.anywhere(action) if group is None else held.effect(action, group)


def test_each_address_is_in_the_matrix_once() -> None:
    names = [route.name for route in routes()]
    assert len(names) == len(set(names))
    in_matrix = [*PUBLIC, *OWN, *DOORS]
    assert len(in_matrix) == len(set(in_matrix))
    assert set(names) == set(in_matrix)


def test_a_page_that_nobody_put_into_the_matrix_opens_to_nobody(
    visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(DOORS, "groups")  # type: ignore[arg-type]
    answer = visitor.get("/groups/")
    assert answer.status_code == 403
    assert "it is not in the matrix" in answer.content.decode()


def test_nobody_gets_in_anywhere_but_where_it_is_said(addresses: dict[str, str]) -> None:
    before = kept()
    for name, address in addresses.items():
        for answer in (Client().get(address), Client().post(address), Client().put(address)):
            if name in PUBLIC:
                assert answer.status_code in (200, 302, 405, 503), address
                assert "/login/?next" not in answer.get("Location", ""), address
            else:
                assert answer.status_code == 302, address
                assert answer["Location"] == f"/login/?next={address}", address
    assert kept() == before


def test_without_a_csrf_token_nothing_is_sent(user: User, addresses: dict[str, str]) -> None:
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
            _looked_at(client.get(addresses[name]), expected(held, door.looks, where), tell)
            _sent_to(client, addresses[name], door, expected_change(held, door, where), tell)


def expected_change(held: Rights, door: Door, group: str | None) -> Effect | None:
    return None if door.changes is None else expected(held, door.changes, group)


def _looked_at(answer: HttpResponse, effect: Effect, tell: str) -> None:
    assert answer.status_code < 500, tell
    if effect is Effect.DENY:
        assert answer.status_code == 403, tell
        assert "You may not do this." in answer.content.decode(), tell
    else:  # 404: no demo runs here, no such scale-down; 405: it only takes a form
        assert answer.status_code in (200, 404, 405), tell


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
        assert answer.status_code == 403 or "/groups/" not in address, tell
        assert answer.status_code != 403 or "needs approval" in answer.content.decode(), tell
    else:
        assert answer.status_code == 403, tell
        assert denied.count() == entries + 1, tell
    assert kept() == before, tell
    if door.previews:
        looks = client.post(address, {door.previews: "1"})
        assert looks.status_code == (403 if effect is Effect.DENY else 200), tell
        assert kept() == before, tell


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
                same = other.content.decode().replace("nobody-made-this", group.name)
                assert answer.content.decode() == same, name
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


def test_lists_leave_out_what_is_hidden_and_keep_the_rest(group: Group, group_name: str) -> None:
    other = make_group(f"open-{group_name}")
    ((_, user, _),) = people(["hidden"], group)
    page = logged_in(user).get("/groups/").content.decode()
    assert f'data-group="{other.name}"' in page and f'data-group="{group.name}"' not in page


@pytest.mark.parametrize("name", ["a%00b", "a" * 101, "%E2%80%AE", "a b"])
def test_what_cannot_be_a_name_is_no_group(visitor: Client, viewer: Client, name: str) -> None:
    for address in (f"/groups/{name}/", f"/groups/{name}/settings/", f"/adopt-group/{name}/"):
        for client in (visitor, viewer):
            assert client.post(address).status_code in (404, 405), address
    assert not AuditEntry.objects.filter(result__startswith="denied").exists()
