"""GET /groups/ and /groups.csv: filter, sort and page on the server, all in the address."""

import csv
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import Group, Sample
from dashboard.pages.views import lists
from dashboard.pages.views.base import now_ms
from tests.dashboard.agents import FakeAgent, make_group


def shown(page: bytes) -> list[str]:
    return re.findall(r'<tr data-group="([^"]+)"', page.decode())


@pytest.fixture
def three(store: Any, group_name: str, db: None) -> list[Group]:
    """x: steady with 4; y: one partition unowned; z: no sample."""
    made = [make_group(f"{name}-{group_name}", partitions=4) for name in "xyz"]
    for group, owned in zip(made, (4, 3), strict=False):
        Sample.objects.create(
            group=group, at_ms=now_ms(), members=owned, owned=owned, conflicts=0, lag_records=owned
        )
    return made


def test_every_group_is_listed_by_name(visitor: Client, three: list[Group]) -> None:
    assert shown(visitor.get("/groups/").content) == [group.name for group in three]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?sort=-name", "zyx"),
        ("?sort=lag", "yxz"),
        ("?sort=-members", "xyz"),
        ("?sort=coverage", "yxz"),
        ("?sort=state", "yzx"),
        ("?state=unowned", "y"),
        ("?state=unknown", "z"),
        ("?q=X-", "x"),
        ("?q=no-such", ""),
    ],
)
def test_filter_and_sort(visitor: Client, three: list[Group], query: str, expected: str) -> None:
    found = shown(visitor.get(f"/groups/{query}").content)
    assert "".join(name[0] for name in found) == expected


@pytest.mark.parametrize("query", ["?sort=shoe", "?state=odd", "?page=x"])
def test_what_cannot_be_read_is_said(visitor: Client, three: list[Group], query: str) -> None:
    answer = visitor.get(f"/groups/{query}")
    assert answer.status_code == 200
    assert len(shown(answer.content)) == 3
    assert b'role="alert"' in answer.content


def test_pages(visitor: Client, three: list[Group], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE", 2)
    assert len(shown(visitor.get("/groups/").content)) == 2
    last = visitor.get("/groups/?page=99&sort=-name").content
    assert [name[0] for name in shown(last)] == ["x"]
    assert b"page 2 of 2, 3 in all" in last


def test_csv_has_what_the_filter_lets_through(visitor: Client, three: list[Group]) -> None:
    answer = visitor.get("/groups.csv?state=unowned")
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))
    assert [(row["group"][0], row["owned"], row["lag_records"]) for row in rows] == [
        ("y", "3", "3")
    ]


def test_the_last_rebalance_is_told(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    page = visitor.get("/groups/").content.decode()
    assert f"/groups/{group.name}/history/" in page
    assert "steady" in page


@pytest.mark.parametrize("groups", [1, 6])
def test_queries_do_not_grow_with_the_groups(
    visitor: Client, store: Any, group_name: str, groups: int, django_assert_max_num_queries: Any
) -> None:
    for i in range(groups):
        made = make_group(f"{group_name}-{i}")
        Sample.objects.create(group=made, at_ms=now_ms(), members=1, owned=4)
    with django_assert_max_num_queries(8):
        assert len(shown(visitor.get("/groups/").content)) == groups
