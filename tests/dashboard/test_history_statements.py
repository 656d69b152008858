"""What it takes to store changes of history, and to ask it for the figures of a rebalance."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from assignment.coordinator.effects import ReadTenures
from assignment.scripts.lock_events import LockEvent, read_event
from dashboard.coordinator import history, ownership, rebalances
from dashboard.models import Group, RebalanceOutcome, Tenure
from tests.dashboard.agents import FakeAgent, make_group, owners
from tests.dashboard.scenes import settle

pytestmark = pytest.mark.django_db


# --- by its changes -------------------------------------------------------------------------------


def with_tenures(group: Group, numbers: Iterable[int]) -> None:
    Tenure.objects.bulk_create(
        Tenure(
            group=group, number=number, partition=f"{group.stream}:{number}", member_id="z",
            fence=1, started_ms=1,
        )
        for number in numbers
    )  # fmt: skip


def event(group: Group, seq: int, what: tuple[str, int, int], at_ms: int = 5) -> LockEvent:
    """`what`: kind, partition number, fence."""
    kind, number, fence = what
    text = {"seq": seq, "type": kind, "partition": f"{group.stream}:{number}"}
    values = {**text, "member": "a", "fence": fence, "at_ms": at_ms}
    fields = {name.encode(): str(value).encode() for name, value in values.items()}
    return read_event(f"{seq}-0", fields)


def begin(group: Group) -> None:
    """The first map of the group is stored."""
    assert history.store(Group.objects.get(pk=group.pk), [event(group, 1, ("fenced", 0, 1))])


def statements(group: Group, events: Sequence[LockEvent]) -> list[str]:
    row = Group.objects.get(pk=group.pk)
    with CaptureQueriesContext(connection) as captured:
        assert history.store(row, events)
    return [query["sql"] for query in captured.captured_queries]


def test_neither_open_tenures_elsewhere_nor_more_moves_cost_a_statement_more(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "EVENTS_MIN", 10_000)  # no map is due
    group = make_group(group_name, partitions=2_000)
    with_tenures(group, range(10))
    begin(group)
    kinds = (("released", 1), ("acquired", 2))
    few = [event(group, n, (kind, 0, fence)) for n, (kind, fence) in enumerate(kinds, 2)]
    alone = statements(group, few)
    with_tenures(group, range(10, 2_000))
    moved = [(kind, number, fence) for number in range(1, 200) for kind, fence in kinds]
    many = [event(group, n, one) for n, one in enumerate(moved, 4)]
    assert len(statements(group, many)) == len(alone)
    assert Tenure.objects.filter(group=group, ended_ms=None).count() == 2_000


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the plan is SQLite's")
def test_tenures_are_looked_up_and_never_read_through(group: Group) -> None:
    with_tenures(group, range(4))
    begin(group)
    events = [event(group, 2, ("released", 0, 1), 5), event(group, 3, ("acquired", 0, 2), 5)]
    found = [sql for sql in statements(group, events) if history.TABLE in sql]
    reads = [sql for sql in found if sql.startswith(("SELECT", "WITH"))]
    assert len(reads) == 2
    assert "tenure_open (group_id=? AND number=?)" in plan_of(reads[0])
    assert "(group_id=? AND partition=? AND fence=?)" in plan_of(reads[1])
    with CaptureQueriesContext(connection) as captured:
        rebalances.read_tenures(group, ReadTenures(1_000))
    plan = plan_of(captured.captured_queries[0]["sql"])
    assert "tenure_started (group_id=? AND started_ms>?)" in plan
    assert "tenure_ended (group_id=? AND ended_ms>?)" in plan
    assert "PRIMARY KEY (rowid=?)" in plan, "nothing else of the group"


def plan_of(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        return "; ".join(row[-1] for row in cursor.fetchall())


def test_a_late_end_of_a_tenure_leaves_the_open_one_open(group: Group) -> None:
    """However the events lie in batches: the next grant ends it, when its own end is lost."""
    events = [
        event(group, 1, ("acquired", 0, 1), 10),
        event(group, 2, ("acquired", 0, 2), 20),
        event(group, 3, ("released", 0, 1), 25),
        event(group, 4, ("acquired", 0, 3), 30),
    ]
    statements(group, events)
    rows = Tenure.objects.order_by("fence").values_list("fence", "ended_ms", "end")
    assert list(rows) == [(1, 25, "released"), (2, 30, None), (3, None, None)]


# --- figures of a rebalance -----------------------------------------------------------------------


def test_the_gaps_since_a_moment_are_one_statement_whatever_moved(group: Group) -> None:
    since_ms = 1_000
    ended = {0: (900, 950), 1: (900, 1_100), 2: (900, 1_300)}
    for number, (started_ms, ended_ms) in ended.items():
        Tenure.objects.create(
            group=group, number=number, partition=f"{group.stream}:{number}", member_id="a",
            fence=1, started_ms=started_ms, ended_ms=ended_ms, end="released",
        )  # fmt: skip
    for number in range(4):  # that of 3 is its first
        Tenure.objects.create(
            group=group, number=number, partition=f"{group.stream}:{number}", member_id="b",
            fence=2, started_ms=1_200,
        )  # fmt: skip
    with CaptureQueriesContext(connection) as captured:
        found = rebalances.read_tenures(group, ReadTenures(since_ms))
    assert len(captured) == 1
    assert (found.last_start_ms, found.last_end_ms) == (1_200, 1_300)
    begun = [(1_200, since_ms), (1_200, 1_100), (1_200, 1_300), (1_200, None)]
    assert sorted(found.begun, key=str) == sorted(begun, key=str)


def test_a_gap_is_of_one_rebalance_however_soon_the_next_one_comes(group: Group) -> None:
    agents = [FakeAgent(group, name) for name in "abc"]
    for count in (1, 2, 3):
        agents[count - 1].start()
        settle(group, agents[:count])
        time.sleep(0.02)
    ends = dict[int, int]()
    gap_ms = 0
    for row in group.tenures.order_by("fence"):
        gap_ms += row.started_ms - ends.get(row.number, row.started_ms)
        ends[row.number] = row.ended_ms or 0
    rows = group.rebalances.filter(outcome=RebalanceOutcome.DONE)
    assert rows.count() == 3 and gap_ms > 0
    assert sum(row.ownership_gap_ms or 0 for row in rows) == gap_ms


def test_owners_are_those_of_the_locks_after_many_hands(group: Group) -> None:
    agents = [FakeAgent(group, name) for name in "abc"]
    for count in (1, 2, 3):
        agents[count - 1].start()
        settle(group, agents[:count])
    assert owners(group) == {
        partition.number: agent.member for agent in agents for partition in agent.held
    }
