"""GET /groups/<name>/history/, one rebalance, and both CSV files."""

import csv
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import Group, Tenure
from dashboard.pages import texts
from dashboard.records import audit
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import settle


@pytest.fixture
def moved(group: Group, agents: list[FakeAgent]) -> list[FakeAgent]:
    """a left, b has everything."""
    agents[0].leave()
    settle(group, agents[1:])
    return agents


def epochs(page: bytes) -> list[int]:
    return [int(e) for e in re.findall(r'data-epoch="(\d+)"', page.decode())]


def test_rebalances_are_listed_newest_first(
    visitor: Client, group: Group, moved: list[FakeAgent]
) -> None:
    answer = visitor.get(f"/groups/{group.name}/history/")
    known = list(group.rebalances.values_list("target_epoch", flat=True))
    assert epochs(answer.content) == known
    assert len(known) == 2
    assert b"leave" in answer.content


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?cause=leave", 1),
        ("?cause=nothing", 0),
        ("?actor=evenk", 2),
        ("?actor=ann", 0),
        ("?member=a", 2),
        ("?member=nobody", 0),
        ("?partition=0", 2),
        ("?from=2000-01-01", 2),
        ("?to=2000-01-01", 0),
        ("?from=yesterday", 2),
    ],
)
def test_filters(
    visitor: Client, group: Group, moved: list[FakeAgent], query: str, count: int
) -> None:
    answer = visitor.get(f"/groups/{group.name}/history/{query}")
    assert len(epochs(answer.content)) == count
    assert (b"is not like 2026-01-31" in answer.content) == ("yesterday" in query)


def test_ownership_is_what_the_locks_saw(
    visitor: Client, group: Group, moved: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/history/?show=ownership&member=a").content.decode()
    fences = set(re.findall(r'data-fence="(\d+)"', page))
    assert fences == {str(t.fence) for t in Tenure.objects.filter(group=group, member_id="a")}
    assert "released" in page or "expired" in page


def test_who_owned_a_partition_at_a_moment(
    visitor: Client, group: Group, moved: list[FakeAgent]
) -> None:
    tenure = Tenure.objects.filter(group=group, member_id="a").first()
    assert tenure is not None and tenure.ended_ms is not None
    owner = f'data-owner="a" data-fence="{tenure.fence}"'
    base = f"/groups/{group.name}/history/?partition={tenure.number}&at="
    assert owner in visitor.get(base + texts.exact(tenure.started_ms)).content.decode()
    assert owner in visitor.get(base + str(tenure.ended_ms - 1)).content.decode()
    assert owner not in visitor.get(base + str(tenure.ended_ms)).content.decode()
    before = visitor.get(base + str(tenure.started_ms - 1)).content.decode()
    assert "Nobody held the lock at that moment" in before


def test_one_rebalance_in_full(visitor: Client, group: Group, moved: list[FakeAgent]) -> None:
    last = group.rebalances.first()
    assert last is not None
    page = visitor.get(
        f"/groups/{group.name}/history/{last.incarnation}/{last.target_epoch}/"
    ).content.decode()
    assert "worker@here" in page
    assert "task-1" in page
    assert page.count('title="a"') >= last.moved
    assert visitor.get(f"/groups/{group.name}/history/999999/").status_code == 404


def test_what_redis_forgot_is_said_in_words(visitor: Client, group: Group) -> None:
    by = audit.automatically(audit.LOSSES[audit.WRITES_LOST])
    result = "1 of 4 partitions put back; at least 10 events destroyed"
    audit.record(by, audit.WRITES_LOST, group, after={"destroyed": 10}, result=result)
    page = visitor.get(f"/groups/{group.name}/history/").content.decode()
    assert f"{by.reason}: {result}." in page
    assert f"?group={group.name}&amp;action=writes%20lost" in page


def test_rebalances_as_csv(visitor: Client, group: Group, moved: list[FakeAgent]) -> None:
    answer = visitor.get(f"/groups/{group.name}/history/rebalances.csv?cause=leave")
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))
    last = group.rebalances.first()
    assert last is not None
    assert [row["target_epoch"] for row in rows] == [str(last.target_epoch)]
    assert rows[0]["moved"] == str(last.moved)


def test_ownership_as_csv_is_exact(visitor: Client, group: Group, moved: list[FakeAgent]) -> None:
    answer = visitor.get(f"/groups/{group.name}/history/ownership.csv?partition=0")
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))
    stored = Tenure.objects.filter(group=group, number=0).order_by("-id")
    assert [(r["member_id"], r["fence"], r["started_ms"], r["ended_ms"]) for r in rows] == [
        (t.member_id, str(t.fence), str(t.started_ms), str(t.ended_ms or "")) for t in stored
    ]


def test_a_formula_in_a_file_is_a_text(visitor: Client, group: Group, moved: Any) -> None:
    group.rebalances.update(reason="=cmd()")
    answer = visitor.get(f"/groups/{group.name}/history/rebalances.csv")
    assert b"'=cmd()" in answer.getvalue()


def test_queries_of_the_list(
    visitor: Client, group: Group, moved: list[FakeAgent], django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(13):
        visitor.get(f"/groups/{group.name}/history/")
