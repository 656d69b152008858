"""GET /audit/, /audit.csv, /audit.jsonl and POST /audit/verify/."""

import csv
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from dashboard.models import AuditEntry, Group
from dashboard.pages.differences import Change, between
from dashboard.pages.views import audit as audit_view
from dashboard.pages.views import base
from dashboard.records import audit, guards
from dashboard.records.audit import By
from tests.dashboard.people import granted, logged_in


@pytest.fixture
def entries(group: Group, visitor: Client) -> list[AuditEntry]:
    """Beside the making of the group by ann, of a user, and her log in: a change by bob."""
    audit.record(
        By("bob", "command", "quieter nights", address="10.1.2.3"),
        "change settings",
        group,
        before={"lease_ms": 10_000},
        after={"lease_ms": 20_000},
    )
    return list(AuditEntry.objects.all())


def keys(page: bytes) -> list[int]:
    return [int(key) for key in re.findall(r'<tr data-key="(\d+)"', page.decode())]


def pairs(page: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", page))


def test_who_what_why_and_what_differs(visitor: Client, entries: list[AuditEntry]) -> None:
    answer = visitor.get("/audit/")
    assert keys(answer.content) == [entry.pk for entry in entries]
    page = answer.content.decode()
    for text in ("bob", "quieter nights", "from 10.1.2.3", "command"):
        assert text in page
    assert "<dt>lease_ms</dt><dd><del>10 s</del> → <ins>20 s</ins></dd>" in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?actor=bob", 1),
        ("?action=create group", 1),
        ("?object=g", 2),
        ("?group=nobody", 0),
        ("?result=done", 4),
        ("?result=denied", 0),
        ("?from=2000-01-01", 4),
        ("?to=2000-01-01", 0),
        ("?from=noon", 4),
    ],
)
def test_filters(visitor: Client, entries: list[AuditEntry], query: str, count: int) -> None:
    assert len(keys(visitor.get(f"/audit/{query}").content)) == count
    rows = visitor.get(f"/audit.csv{query}").getvalue().decode().splitlines()
    assert len(list(csv.DictReader(rows))) == count
    lines = visitor.get(f"/audit.jsonl{query}").getvalue().decode().splitlines()
    assert len([json.loads(line) for line in lines]) == count


def test_a_line_has_all_that_its_hmac_covers(visitor: Client, entries: list[AuditEntry]) -> None:
    (line,) = visitor.get("/audit.jsonl?actor=bob").getvalue().decode().splitlines()
    entry, found = entries[0], json.loads(line)
    assert (found["mac"], found["seq"], found["after"]) == (entry.mac, entry.seq, entry.after)
    assert found["at"].endswith("+00:00")


def test_pages_by_key(
    visitor: Client, entries: list[AuditEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_view, "PAGE", 2)
    first = visitor.get("/audit/").content.decode()
    older = re.search(r'href="(\?before=\d+)"', first)
    assert older
    second = visitor.get(f"/audit/{older[1]}").content
    assert keys(first.encode()) + keys(second) == [entry.pk for entry in entries]
    assert "older →" not in second.decode()


def test_what_nobody_chained_does_not_stand_first(
    visitor: Client, entries: list[AuditEntry], unguarded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    AuditEntry.objects.create(seq=0, mac="0" * 64, at=timezone.now(), actor="eve", source="page")
    monkeypatch.setattr(audit_view, "PAGE", len(entries))
    first = visitor.get("/audit/").content.decode()
    assert ">eve<" not in first
    older = re.search(r'href="(\?before=\d+)"', first)
    assert older
    assert ">eve<" in visitor.get(f"/audit/{older[1]}").content.decode()
    assert '"eve"' in visitor.get("/audit.jsonl").getvalue().decode().splitlines()[-1]


def test_queries_of_the_list(
    visitor: Client, entries: list[AuditEntry], django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(6):  # session, user, roles, entries, their groups, actions
        visitor.get("/audit/")


@pytest.mark.parametrize(
    "value",
    ["=1+1", "\N{FULLWIDTH EQUALS SIGN}1+1", "\u200b=1+1", "\ufeff\N{FULLWIDTH PLUS SIGN}1", " @x"],
)
def test_no_value_of_a_file_is_a_formula(value: str) -> None:
    assert base._csv_value(value) == "'" + value


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("x;=1+1", "x;'=1+1"),
        ("=1;-2;3", "'=1;'-2;3"),
        ("a\n@b\tc", "a\n'@b\tc"),
        ("a; =1", "a;' =1"),
    ],
)
def test_nor_is_a_part_of_one_where_files_are_split_otherwise(value: str, made: str) -> None:
    assert base._csv_value(value) == made


def test_every_value_of_a_file_is_quoted(visitor: Client, group: Group) -> None:
    audit.record(By("bob", "command", 'a "b"; c'), "turn", after={"many": 2})
    lines = visitor.get("/audit.csv?actor=bob").getvalue().decode().splitlines()
    (row,) = csv.DictReader(lines)
    assert (row["actor"], row["reason"], row["after"]) == ("bob", 'a "b"; c', '{"many": 2}')
    assert [line.count('","') for line in lines] == [len(row) - 1] * 2


@pytest.mark.parametrize("value", ["a=1", "1", "ü", "", "\u200b", None])
def test_other_values_stay(value: str | None) -> None:
    assert base._csv_value(value) == (value or "")


def test_differences() -> None:
    before = {"same": 1, "mode": "client", "owners": {"a": 2, "b": 1}, "gone": None}
    after = {"same": 1, "mode": "server", "owners": {"a": 3}, "leave": ["S1", "S2"]}
    assert between(before, after).shown == [
        Change("gone", "none", ""),
        Change("leave", "", "S1, S2"),
        Change("mode", "client", "server"),
        Change("owners.a", "2", "3"),
        Change("owners.b", "1", ""),
    ]
    assert between(None, None).shown == []
    before = {"stateful": False, "heartbeat_ms": 10_000, "at_ms": 0, "map": {}, "told": []}
    after = {"stateful": True, "heartbeat_ms": None, "map": [{"b": 1, "a": [0, 2]}], "told": ["S1"]}
    assert between(before, after).shown == [
        Change("at_ms", "1970-01-01T00:00:00.000Z", ""),
        Change("heartbeat_ms", "10 s", "none"),
        Change("map", "none", "a 0, 2, b 1"),
        Change("stateful", "no", "yes"),
        Change("told", "none", "S1"),
    ]
    many = between(None, {str(n): n for n in range(100)})
    assert (len(many.shown), many.more) == (12, 88)


def test_no_change_is_shown_as_json_and_the_lines_have_it_raw(
    visitor: Client, group: Group
) -> None:
    after = {"members": {"a": {"told": True}}, "zones": [{"east": [0, 1]}], "stateful": True}
    audit.record(By("bob", "command", "night"), "turn", group, before={}, after=after)
    page = visitor.get("/audit/?actor=bob").content.decode()
    assert pairs(page) == {"members.a.told": "yes", "stateful": "yes", "zones": "east 0, 1"}
    (line,) = visitor.get("/audit.jsonl?actor=bob").getvalue().decode().splitlines()
    assert json.loads(line)["after"] == after


def test_an_auditor_verifies_by_the_button(entries: list[AuditEntry]) -> None:
    bob = User.objects.create(username="bob")
    granted(bob, "auditor", "g*")
    visitor = logged_in(bob)
    assert "disabled title" in visitor.get("/audit/").content.decode()
    assert visitor.post("/audit/verify/").status_code == 403
    entry = AuditEntry.objects.get(action="verify the audit")
    assert entry.actor == "bob"
    assert (
        entry.result == "denied: to verify the audit takes the role auditor or admin in all groups"
    )
    granted(bob, "auditor")
    page = visitor.post("/audit/verify/", follow=True).content.decode()
    assert "The chain holds" in page
    guards.lift(connection)
    AuditEntry.objects.filter(pk=entries[0].pk).update(actor="eve")
    page = visitor.post("/audit/verify/", follow=True).content.decode()
    assert f"The chain is broken: entry {entries[0].seq} was altered" in page
