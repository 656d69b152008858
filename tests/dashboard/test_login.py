"""Log in and out, users and rights: on record."""

import pytest
from django.contrib.auth.models import Group as UserGroup
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from dashboard.live import push
from dashboard.models import AuditEntry
from dashboard.records import chain

pytestmark = pytest.mark.django_db
PASSWORD = "even-keel-even"


@pytest.fixture(autouse=True)
def ann(settings: Settings) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
    return User.objects.create_user("ann", password=PASSWORD)


def said(action: str) -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.filter(action=action).order_by("seq")
    return list(rows.values_list("actor", "address", "result"))


def test_log_in_and_out_and_what_failed_are_on_record() -> None:
    client = Client(REMOTE_ADDR="10.0.0.1")
    client.post("/login/", {"username": "ann", "password": "no"})
    client.post("/login/", {"username": "ann", "password": PASSWORD})
    client.post("/logout/")
    assert said("failed log in") == [("ann", "10.0.0.1", "failed")]
    assert said("log in") == said("log out") == [("ann", "10.0.0.1", "done")]
    assert PASSWORD not in str(list(AuditEntry.objects.values()))
    assert chain.verify().ok


def test_users_and_their_rights_are_on_record(ann: User) -> None:
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    client = Client()
    client.force_login(boss)
    roles = UserGroup.objects.create(name="auditor")
    client.post(f"/users/{ann.pk}/", {"do": "deactivate"})
    entry = AuditEntry.objects.get(action="change user")
    assert (entry.actor, entry.object, entry.source) == ("boss", "user ann", "page")
    ann.delete()
    assert AuditEntry.objects.get(action="delete user").object == "user ann"
    boss.groups.add(roles)
    assert AuditEntry.objects.get(action="change rights").after == {"roles": ["auditor"]}
    boss.is_active = False
    boss.set_password("another")
    boss.save()
    entry = AuditEntry.objects.get(action="change user", object="user boss")
    assert entry.before == {"is_active": True, "password": "(not shown)"}
    assert entry.after == {"is_active": False, "password": "(another one, not shown)"}
    assert AuditEntry.objects.filter(action="create role", object="role auditor").exists()


def test_a_form_without_its_csrf_token_is_on_record() -> None:
    client = Client(enforce_csrf_checks=True, REMOTE_ADDR="10.0.0.7")
    assert client.post("/logout/").status_code == 403
    (entry,) = said("POST logout")
    assert entry[1] == "10.0.0.7" and entry[2].startswith("denied: CSRF")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["log out", "deactivate", "clean up"])
def test_sockets_are_told_once_a_login_has_ended(
    ann: User, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Not before: they look at once, and find what is stored then."""
    client, found = Client(), set[tuple[int, bool]]()
    client.force_login(ann)

    def told() -> None:
        found.add((Session.objects.count(), User.objects.get().is_active))

    monkeypatch.setattr(push, "push_rights", told)
    if how == "log out":
        client.post("/logout/")
    elif how == "deactivate":
        ann.is_active = False
        ann.save()
    else:
        Session.objects.update(expire_date=timezone.now())
        call_command("clearsessions")
    assert found == {"log out": {(0, True)}, "deactivate": {(0, False)}, "clean up": set()}[how]
