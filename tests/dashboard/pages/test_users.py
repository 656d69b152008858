"""/users/, /users/<pk>/ and /password/: people and what is granted to them."""

import re
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from dashboard.actions import users as actions
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action, Effect, Grant, Role
from dashboard.models import AuditEntry, AuditSource
from dashboard.records import rights
from dashboard.records.audit import By
from dashboard.records.grants import RoleGrant
from tests.dashboard.people import granted, logged_in

pytestmark = pytest.mark.django_db
PASSWORD = "an-even-keel-9"


@pytest.fixture
def bob(db: None, visitor: Client) -> User:
    """Made in the browser."""
    answer = visitor.post("/users/", {"name": "bob", "password": PASSWORD})
    made = User.objects.get(username="bob")
    assert answer["Location"] == f"/users/{made.pk}/"
    return made


def last() -> AuditEntry:
    found = AuditEntry.objects.order_by("-id").first()
    assert found is not None
    return found


def test_a_user_is_made_and_is_a_viewer(visitor: Client, bob: User) -> None:
    entry = AuditEntry.objects.get(action="create user", object="user bob")
    assert (entry.actor, entry.source) == ("ann", "page")
    assert not bob.is_superuser and not bob.is_staff
    client = Client()
    assert client.post("/login/", {"username": "bob", "password": PASSWORD}).status_code == 302
    assert client.get("/groups/").status_code == 200
    assert client.get("/users/").status_code == 403
    assert "viewer of every group" in visitor.get("/users/").content.decode()
    assert PASSWORD not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "a b", "password": PASSWORD}, "name &#x27;a b&#x27;: Enter a valid username"),
        ({"name": "ANN", "password": PASSWORD}, "user &#x27;ANN&#x27; exists already"),
        ({"name": "evenkeel", "password": PASSWORD}, "what the audit calls the system"),
        ({"name": "eve", "password": "12345678"}, "This password is too common."),
        ({"name": "eve", "password": ""}, "This field is required."),
        ({"name": "eve", "password": PASSWORD, "is_superuser": "1"}, "there is no field"),
    ],
)
def test_what_is_wrong_with_a_new_user_is_named(
    visitor: Client, values: dict[str, str], said: str
) -> None:
    page = visitor.post("/users/", values).content.decode()
    assert said in page
    assert User.objects.count() == 1
    assert PASSWORD not in page


def test_a_role_is_granted_and_revoked(visitor: Client, bob: User) -> None:
    address = f"/users/{bob.pk}/"
    values = {"do": "grant", "effect": "allow", "role": "operator", "pattern": "team-*"}
    assert visitor.post(address, values)["Location"] == address
    row = RoleGrant.objects.get()
    assert str(row) == "allow operator in team-*" and row.made_by == "ann"
    after = {"effect": "allow", "role": "operator", "pattern": "team-*"}
    entry = last()
    assert (entry.action, entry.object, entry.after) == ("grant role", "user bob", after)
    page = visitor.get(address).content.decode()
    assert f'data-grant="{row.pk}"' in page
    assert "allow operator in team-*" in visitor.get("/users/").content.decode()
    again = visitor.post(address, values).content.decode()
    assert "bob has this already: allow operator in team-*" in again
    assert visitor.post(address, {"do": "revoke", "grant": row.pk}).status_code == 302
    assert not RoleGrant.objects.exists()
    assert (last().action, last().before) == ("revoke role", after)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pattern": "a b"}, "pattern &#x27;a b&#x27; is not"),
        ({"role": "king"}, "king is not one of the available choices"),
        ({"role": "auditor", "effect": "stage"}, "role auditor cannot be staged"),
        ({"pattern": ""}, "This field is required."),
        ({"until": "noon"}, "there is no field &#x27;until&#x27;"),
    ],
)
def test_what_is_wrong_with_a_grant_is_named(
    visitor: Client, bob: User, changes: dict[str, str], said: str
) -> None:
    values = {"do": "grant", "effect": "allow", "role": "operator", "pattern": "*", **changes}
    assert said in visitor.post(f"/users/{bob.pk}/", values).content.decode()
    assert not RoleGrant.objects.exists()


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"do": "delete"}, 400),
        ({}, 400),
        ({"do": "revoke", "grant": "9" * 30}, 404),
        ({"do": "revoke", "grant": "x"}, 404),
    ],
)
def test_what_cannot_be_read_is_refused(
    visitor: Client, bob: User, values: dict[str, str], code: int
) -> None:
    assert visitor.post(f"/users/{bob.pk}/", values).status_code == code
    assert visitor.get("/users/99999/").status_code == 404


def test_who_is_deactivated_is_out_and_may_come_back(visitor: Client, bob: User) -> None:
    client = logged_in(bob)
    assert client.get("/").status_code == 200
    kept = client.cookies["sessionid"].value
    visitor.post(f"/users/{bob.pk}/", {"do": "deactivate"})
    assert (last().action, last().after) == ("change user", {"is_active": False})
    assert client.get("/").status_code == 302
    wrong = Client().post("/login/", {"username": "bob", "password": PASSWORD})
    assert wrong.status_code == 200
    visitor.post(f"/users/{bob.pk}/", {"do": "activate"})
    assert (last().action, last().after) == ("change user", {"is_active": True})
    client.cookies["sessionid"] = kept
    assert client.get("/").status_code == 302, "what was begun before does not hold again"
    assert visitor.get("/").status_code == 200
    assert Client().post("/login/", {"username": "bob", "password": PASSWORD}).status_code == 302


def test_a_new_password_ends_sessions(visitor: Client, bob: User) -> None:
    client = logged_in(bob)
    visitor.post(f"/users/{bob.pk}/", {"do": "password", "password": "another-keel-8"})
    assert (last().action, last().object) == ("change user", "user bob")
    assert last().after == {"password": "(another one, not shown)"}
    assert client.get("/").status_code == 302
    right = Client().post("/login/", {"username": "bob", "password": "another-keel-8"})
    assert right.status_code == 302


def test_nobody_shuts_themselves_out(db: None) -> None:
    carl = User.objects.create(username="carl")
    row = granted(carl, "admin")
    client, address = logged_in(carl), f"/users/{carl.pk}/"
    deny = {"do": "grant", "effect": "deny", "role": "admin", "pattern": "*"}
    for values in ({"do": "deactivate"}, {"do": "revoke", "grant": row.pk}, deny):
        page = client.post(address, values).content.decode()
        assert "carl could not manage users any more: ask another admin" in page
    carl.refresh_from_db()
    assert carl.is_active and RoleGrant.objects.get() == row
    assert not AuditEntry.objects.filter(
        actor="carl", action__in=("grant role", "revoke role"), result="done"
    ).exists()
    assert not AuditEntry.objects.filter(
        action="change user", object="user carl", result="done"
    ).exists()


@pytest.mark.parametrize(
    ("role", "pattern", "effect"), [("viewer", "secret-*", "deny"), ("admin", "prod-*", "stage")]
)
def test_who_is_bound_in_some_groups_does_not_unbind_himself(
    db: None, role: str, pattern: str, effect: str
) -> None:
    carl = User.objects.create(username="carl")
    granted(carl, "admin")
    row = granted(carl, role, pattern, effect)
    client, address = logged_in(carl), f"/users/{carl.pk}/"
    assert client.post(address, {"do": "revoke", "grant": row.pk}).status_code == 403
    new = {"name": "carla", "password": PASSWORD}
    assert client.post("/users/", new).status_code == 403
    assert client.post("/producers/", {"do": "create", "stream": "s"}).status_code == 403
    assert RoleGrant.objects.count() == 2 and User.objects.count() == 1


@pytest.fixture
def two(db: None) -> list[tuple[User, By]]:
    """Admins, each with the rights that a request began with."""
    found = [User.objects.create(username=name) for name in ("carl", "dora")]
    for one in found:
        granted(one, "admin")
    return [(u, By(u.username, AuditSource.PAGE, rights=rights.of_user(u))) for u in found]


TAKE_AWAY: dict[str, Callable[[User, By], object]] = {
    "deactivate": lambda user, by: actions.set_active(user, False, by),
    "revoke": lambda user, by: actions.revoke(RoleGrant.objects.get(user=user), by),
    "deny": lambda user, by: actions.grant(user, Grant(role=Role.ADMIN, effect=Effect.DENY), by),
}


@pytest.mark.parametrize("how", TAKE_AWAY)
def test_the_last_who_may_manage_users_keeps_that(two: list[tuple[User, By]], how: str) -> None:
    """The second one's request was past the gate already."""
    (carl, by_carl), (dora, by_dora) = two
    TAKE_AWAY[how](dora, by_carl)
    with pytest.raises(Refused, match="nobody could manage users any more"):
        TAKE_AWAY[how](carl, by_dora)
    carl.refresh_from_db()
    assert carl.is_active and rights.of_user(carl).may(Action.MANAGE_USERS, None)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_deactivate_each_other_at_once_one_is_left(two: list[tuple[User, By]]) -> None:
    both, refused = threading.Barrier(2), list[str]()

    def deactivate(user: User, by: By) -> None:
        def change() -> None:
            User.objects.filter(pk=user.pk).update(is_active=False)
            with suppress(threading.BrokenBarrierError):
                both.wait(1)  # where nothing keeps them apart both have changed by now

        try:
            actions._keeping_oneself(user, by, change)
        except Refused as error:
            refused.append(str(error))
        finally:
            connection.close()

    (carl, by_carl), (dora, by_dora) = two
    threads = [
        threading.Thread(target=deactivate, args=pair)
        for pair in ((dora, by_carl), (carl, by_dora))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert User.objects.filter(is_active=True).count() == 1


def test_an_admin_of_some_groups_manages_no_users(bob: User) -> None:
    granted(bob, "admin", "team-*")
    client = logged_in(bob)
    assert client.get("/users/").status_code == 403
    values = {"do": "grant", "effect": "allow", "role": "admin", "pattern": "*"}
    assert client.post(f"/users/{bob.pk}/", values).status_code == 403
    assert 'href="/users/"' not in client.get("/").content.decode()


def test_ones_own_password(bob: User) -> None:
    client = logged_in(bob)
    new = {"old": PASSWORD, "password": "another-keel-8", "again": "another-keel-8"}
    for values, said in (
        ({**new, "old": "x"}, "This is not your password."),
        ({**new, "again": "another-keel-9"}, "The two new passwords differ."),
        ({**new, "password": "12345678", "again": "12345678"}, "too common"),
    ):
        page = client.post("/password/", values).content.decode()
        assert said in page and not re.search(r"value=\"[^\"]*keel", page)
    assert client.post("/password/", new)["Location"] == "/password/"
    assert client.get("/password/").status_code == 200, "one's own session goes on"
    assert (last().actor, last().action) == ("bob", "change user")
    bob.refresh_from_db()
    assert bob.check_password("another-keel-8")


def test_who_has_a_session_does_not_guess_the_password_at_will(bob: User) -> None:
    client = logged_in(bob)
    new = {"password": "another-keel-8", "again": "another-keel-8"}
    for number in range(10):
        client.post("/password/", {"old": f"guess-{number}", **new})
    client.post("/password/", {"old": PASSWORD, **new})
    bob.refresh_from_db()
    assert bob.check_password(PASSWORD)


@pytest.mark.parametrize("name", ["bob", "BOB", "ｂｏｂ"])
def test_names_that_look_alike_are_one(visitor: Client, bob: User, name: str) -> None:
    page = visitor.post("/users/", {"name": name, "password": PASSWORD}).content.decode()
    assert "exists already" in page
    assert User.objects.count() == 2
