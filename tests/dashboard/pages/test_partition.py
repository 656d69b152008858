"""GET /groups/<name>/partitions/<number>/: ownership over time, drawn and as a table."""

import re

import pytest
from django.test import Client

from dashboard.models import Group, Tenure
from dashboard.records.queries.tenures import timeline
from tests.dashboard.agents import FakeAgent


def tenure(member: str, fence: int, start: int, end: int | None) -> Tenure:
    return Tenure(member_id=member, fence=fence, number=0, started_ms=start, ended_ms=end)


def kinds(*rows: Tenure) -> list[tuple[str, int, int]]:
    """What is drawn of 0 to 100 ms, in percent."""
    return [
        (s.kind, round(s.x * 100), round(s.width * 100)) for s in timeline(rows, 0, 100, {"a": 0})
    ]


@pytest.mark.parametrize(
    ("rows", "drawn"),
    [
        ([], []),
        ([tenure("a", 1, 20, None)], [("owned", 20, 80)]),
        (
            [tenure("a", 1, 0, 40), tenure("b", 2, 60, None)],
            [("owned", 0, 40), ("gap", 40, 20), ("owned", 60, 40)],
        ),
        ([tenure("a", 1, 10, 40)], [("owned", 10, 30), ("gap", 40, 60)]),
        (
            [tenure("a", 1, 0, 60), tenure("b", 2, 50, 100)],
            [("owned", 0, 60), ("owned", 50, 50), ("overlap", 50, 10)],
        ),
        ([tenure("a", 1, -50, 200)], [("owned", 0, 100)]),
    ],
)
def test_gaps_and_overlaps_are_drawn(rows: list[Tenure], drawn: list[tuple[str, int, int]]) -> None:
    assert kinds(*rows) == drawn


def test_the_page_has_every_interval(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/partitions/0/?span=all").content.decode()
    stored = Tenure.objects.get(group=group, number=0)
    assert re.findall(r'data-owner="(\w+)" data-fence="(\d+)"', page) == [
        (stored.member_id, str(stored.fence))
    ]
    assert '<rect class="owned o' in page


def test_the_lookup_by_time(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    stored = Tenure.objects.get(group=group, number=0)
    address = f"/groups/{group.name}/partitions/0/?at="
    assert "Owner at" in visitor.get(address + str(stored.started_ms)).content.decode()
    early = visitor.get(address + str(stored.started_ms - 1)).content.decode()
    assert "Nobody held the lock" in early
    assert "is not like" in visitor.get(address + "noon").content.decode()


def test_a_partition_that_is_not_there(visitor: Client, group: Group) -> None:
    assert visitor.get(f"/groups/{group.name}/partitions/4/").status_code == 404
