"""GET /audit/ and /audit.csv."""

import csv
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import AuditEntry, Group
from dashboard.pages.views import audit as audit_view
from dashboard.records import audit
from dashboard.records.audit import By


@pytest.fixture
def entries(group: Group) -> list[AuditEntry]:
    """Beside the making of the group by ann: a change by bob."""
    audit.record(
        By("bob", "command", "quieter nights"),
        "change settings",
        group,
        before={"lease_ms": 10_000},
        after={"lease_ms": 20_000},
    )
    return list(AuditEntry.objects.all())


def keys(page: bytes) -> list[int]:
    return [int(key) for key in re.findall(r'<tr data-key="(\d+)"', page.decode())]


def test_who_what_why_before_after(visitor: Client, entries: list[AuditEntry]) -> None:
    answer = visitor.get("/audit/")
    assert keys(answer.content) == [entry.pk for entry in entries]
    page = answer.content.decode()
    for text in ("bob", "quieter nights", "lease_ms: 10000", "lease_ms: 20000", "command"):
        assert text in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?actor=bob", 1),
        ("?action=create group", 1),
        ("?object=g", 2),
        ("?group=nobody", 0),
        ("?from=2000-01-01", 2),
        ("?to=2000-01-01", 0),
        ("?from=noon", 2),
    ],
)
def test_filters(visitor: Client, entries: list[AuditEntry], query: str, count: int) -> None:
    assert len(keys(visitor.get(f"/audit/{query}").content)) == count
    rows = visitor.get(f"/audit.csv{query}").getvalue().decode().splitlines()
    assert len(list(csv.DictReader(rows))) == count


def test_pages_by_key(
    visitor: Client, entries: list[AuditEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_view, "PAGE", 1)
    first = visitor.get("/audit/").content.decode()
    older = re.search(r'href="(\?before=\d+)"', first)
    assert older
    second = visitor.get(f"/audit/{older[1]}").content
    assert keys(first.encode()) + keys(second) == [entry.pk for entry in entries]
    assert "older →" not in second.decode()


def test_queries_of_the_list(
    visitor: Client, entries: list[AuditEntry], django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(4):
        visitor.get("/audit/")
