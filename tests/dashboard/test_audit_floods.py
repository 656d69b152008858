"""What is tried again and again is counted; nobody's flood hides what somebody else tried."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.test import Client

from dashboard.agents import tokens
from dashboard.models import AuditEntry, Group
from dashboard.records import audit, floods
from dashboard.records.audit import By
from tests.dashboard.chained import ANN
from tests.dashboard.people import logged_in

PATIENCE_S = 20.0
TRIES = 210  # more kinds than are kept apart
pytestmark = pytest.mark.django_db


def of(actor: str) -> list[tuple[str, str, str, str]]:
    """What that one only tried."""
    rows = AuditEntry.objects.filter(actor=actor).exclude(result="done").order_by("seq")
    return list(rows.values_list("action", "group", "object", "result"))


def test_a_flood_is_two_entries() -> None:
    for _ in range(100):
        audit.denied(ANN, "turn", "g", why="no right")
    assert AuditEntry.objects.count() == 1
    audit.floods.tell()
    first, counted = AuditEntry.objects.order_by("seq")
    assert (first.count, counted.count, counted.result) == (1, 99, "denied: no right")
    assert set(counted.after) == {"first", "last"}
    audit.denied(ANN, "turn", "g", why="no right")
    assert AuditEntry.objects.count() == 3


def test_a_flood_of_strangers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floods, "STRANGERS_KINDS_MAX", 5)
    for number in range(50):
        by = By(f"u{number}", "page", address=f"10.0.0.{number}", is_stranger=True)
        audit.denied(by, f"turn {number % 25}", f"g{number}", why="no right")
    entries = AuditEntry.objects.order_by("seq")
    assert entries.count() == 11  # as they are; by their actions; all others
    assert of("(many)")[0] == ("turn 5", "", "(many)", "denied")
    assert of("(many)")[-1] == ("(many)", "", "(many)", "denied")
    audit.floods.tell()
    assert sum(entries.values_list("count", flat=True)) == 50


def test_a_flood_of_one_person_is_bounded_and_stays_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(floods, "KINDS_MAX", 5)
    for number in range(50):
        audit.denied(replace(ANN, address=f"10.0.0.{number}"), "turn", "g", why=f"no {number}")
    assert of("ann") == [("turn", "g", "g", f"denied: no {n}") for n in range(5)] + [
        ("turn", "g", "(many)", "denied")
    ]
    for number in range(50):
        audit.denied(ANN, "turn", f"g{number}", why="no right")
    assert of("ann")[6:] == [
        *(("turn", f"g{n}", "(many)", "denied") for n in range(4)),
        ("(many)", "", "(many)", "denied"),
    ]
    audit.floods.tell()
    assert sum(AuditEntry.objects.values_list("count", flat=True)) == 100
    assert not AuditEntry.objects.exclude(actor="ann").exists()


def test_strangers_do_not_hide_what_a_person_or_a_token_tried(group: Group) -> None:
    stranger = Client(enforce_csrf_checks=True)
    for number in range(TRIES):
        stranger.post(f"/groups/x{number}/settings/")
    Client().post("/login/", {"username": "bob", "password": "no"})
    assert of("bob") == []
    assert ("failed log in", "", "(many)", "failed") in of("(many)")
    assert logged_in(User.objects.create(username="bob")).get("/users/").status_code == 403
    ((action, *_, result),) = of("bob")
    assert action == "manage users"
    assert result.startswith("denied: ")
    token = tokens.AgentToken.objects.create(group=group, name="t", digest="d" * 64, created_by="a")
    tokens.note_other_group(token.pk, "other", "10.0.0.1")
    assert of(f"token {group.name}/t")[0][:3] == ("use token", "other", f"{group.name}/t")


def test_a_person_does_not_hide_what_another_one_tried() -> None:
    ann = logged_in(User.objects.create(username="ann"), enforce_csrf_checks=True)
    for number in range(TRIES):
        ann.post(f"/groups/x{number}/settings/")
    assert logged_in(User.objects.create(username="bob")).get("/users/").status_code == 403
    assert of("bob")
    assert not of("(many)")
    assert len(of("ann")) <= 2 * floods.KINDS_MAX + 1


def test_a_wrong_own_password_is_that_person_s() -> None:
    """Who gives a name to log in is a stranger, who is logged in by it is not."""
    ann = User.objects.create_user("ann", password="even-keel-even")
    for number in range(TRIES):
        audit.denied(By(f"u{number}", "page", is_stranger=True), "turn", why="no right")
    logged_in(ann).post("/password/", {"old": "no", "password": "x", "again": "x"})
    assert ("failed log in", "", "ann", "failed") in of("ann")


class Soon(threading.Timer):
    """What waits for a window does not wait here."""

    def __init__(self, seconds: float, function: Any) -> None:
        assert seconds == floods.WINDOW_S
        super().__init__(0.05, function)


@pytest.mark.django_db(transaction=True)
def test_what_was_counted_is_written_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the database refuses it at first."""
    write, tries = audit.floods._write, []

    def refused_at_first(*counted: Any) -> None:
        tries.append(counted)
        if len(tries) == 1:
            raise DatabaseError("locked")
        write(*counted)

    monkeypatch.setattr(threading, "Timer", Soon)
    monkeypatch.setattr(audit.floods, "_write", refused_at_first)
    for _ in range(5):
        audit.denied(ANN, "turn", "g", why="no right")
    counts, deadline = [1], time.monotonic() + PATIENCE_S
    while sum(counts) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
        counts = list(AuditEntry.objects.values_list("count", flat=True))
    assert (sum(counts), len(tries) > 1) == (5, True)
