"""The map at a moment, from stored maps and changes, is what the locks' events tell of it."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from assignment.ownership import OwnershipMap
from assignment.scripts.lock_events import LockEvent
from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.coordinator import history, ownership
from dashboard.live import groups as live_groups
from dashboard.models import Group
from dashboard.records import corrections
from dashboard.records.queries import ownership as queries
from dashboard.records.queries import tenures
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.scenes import lived, settle

pytestmark = pytest.mark.django_db
INSTANTS = 200
NOBODY = ("", 0, 0)
Cells = dict[int, tuple[str, int, int]]  # partition -> owner, fence, since


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map for every ten events."""
    monkeypatch.setattr(ownership, "EVENTS_MIN", 10)


def cells(found: OwnershipMap) -> Cells:
    return {
        int(n): (str(found.owner_of(n)), int(found.fence[n]), int(found.since_ms[n]))
        for n in found.held()
    }


def replayed(events: Sequence[LockEvent], at_ms: int) -> Cells:
    """By a rule of its own: the events of until then, one after the other. That a lock ran out is
    noted later than it was.
    """
    found: Cells = {}
    for event in events:
        number = event.partition.number
        if event.at_ms > at_ms:
            continue
        if event.kind == "acquired" and event.fence > found.get(number, NOBODY)[1]:
            found[number] = event.member_id, event.fence, event.at_ms
        elif event.kind != "fenced" and number in found and found[number][1] == event.fence:
            del found[number]
    return found


def instants(chance: random.Random, events: Sequence[LockEvent]) -> Iterator[int]:
    times = [event.at_ms for event in events]
    first, last = min(times), max(times)
    yield from (first - 1, first, last, last + 1)
    for _ in range(INSTANTS):
        yield chance.randint(first - 1, last + 1)


@pytest.mark.parametrize("seed", range(3))
def test_at_any_moment_it_is_the_replay_of_the_event_stream(
    store: Any, group_name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(live_groups, "EVENTS_AT_ONCE", 7)
    group = lived(group_name, store, chance)
    events = live_groups.events_after(group.name, "0-0", 10_000)
    assert len(events) > 20
    assert group.maps.count() > 1
    for at_ms in instants(chance, events):
        assert cells(queries.at(group, at_ms)) == replayed(events, at_ms), f"{seed=} {at_ms=}"


@pytest.mark.parametrize("seed", range(5))
def test_a_clock_that_goes_back_changes_no_answer(group: Group, seed: int) -> None:
    chance = random.Random(seed)
    events = made(group, chance, back=True)
    for start in range(0, len(events), 35):
        assert history.store(group, events[start : start + 35])
    assert group.maps.exists()
    for _ in range(INSTANTS):
        at_ms = chance.randint(900, 2_500)
        by_tenures: Cells = {}
        for row in queries.holding(group, at_ms).order_by("fence"):
            by_tenures[row.number] = (row.member_id, row.fence, row.started_ms)
        assert cells(queries.at(group, at_ms)) == by_tenures, f"{seed=} {at_ms=}"


def made(group: Group, chance: random.Random, *, back: bool = False) -> list[LockEvent]:
    """Three hundred events of locks that change hands."""
    events: list[LockEvent] = []
    held: dict[int, tuple[str, int]] = {}
    at_ms, fence = 1_000, 0
    for seq in range(1, 301):
        at_ms += chance.choice((0, 0, 1, 5, 9))
        if back and chance.random() < 0.02:
            at_ms = max(1_000, at_ms - 100)
        number = chance.randrange(group.partitions)
        kind = chance.choice(("released", "expired")) if number in held else "acquired"
        if kind == "acquired":
            fence += 1
            held[number] = chance.choice("abc"), fence
        member, its = held[number]
        if kind != "acquired":
            del held[number]
        events.append(
            LockEvent(
                entry_id=f"{seq}-0", seq=seq, kind=kind, partition=Partition(group.stream, number),
                member_id=member, fence=its, at_ms=at_ms,
            )
        )  # fmt: skip
    return events


def test_it_takes_two_queries_and_few_changes_however_long_history_is(group: Group) -> None:
    events = made(group, random.Random(1))
    assert history.store(group, events)
    moments = sorted(group.maps.values_list("at_ms", flat=True))
    assert len(moments) == 30
    for first, then in pairwise(moments):
        assert len(list(queries.changes(group, first + 1, then - 1))) <= 10
    with CaptureQueriesContext(connection) as found:
        queries.at(group, moments[15] + 1)
    assert len(found) == 2


def test_an_epoch_that_ended_makes_a_map_before_many_changes_do(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "EVENTS_MIN", 100)
    events, counts = made(group, random.Random(4)), []
    group.rebalances.create(
        target_epoch=1, at_ms=1, cause="join", strategy="sticky", members=3, partitions=4, kept=0,
        moved=4, target=b"", previous=b"", finished_at_ms=events[19].at_ms + 1,
    )  # fmt: skip
    for first, last in pairwise((0, 20, 25, 35, 60, 140)):
        assert history.store(group, events[first:last])
        counts.append(group.maps.count())
    assert counts == [1, 1, 2, 2, 3]


def test_a_wiped_redis_ends_every_tenure_and_the_map_knows(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    agent.start()
    settle(group, [agent])
    held_ms = live_groups.redis_now_ms()
    assert len(cells(queries.at(group, held_ms))) == 4
    for key in store.scan_iter(match=f"{GroupKeys(group.name).meta.removesuffix('meta')}*"):
        store.delete(key)
    tick()
    gap = group.gaps.get(events_lost=None)
    assert cells(queries.at(group, gap.at_ms)) == {}
    assert len(cells(queries.at(group, held_ms))) == 4


def test_times_set_right_are_not_answered_from_maps_made_before(group: Group) -> None:
    assert history.store(group, made(group, random.Random(2)))
    group.tenures.filter(ended_ms=None).update(started_ms=2**52)
    now_ms = 10_000
    corrections.correct(group, "times", ["tenures started_ms"], now_ms, 300)
    held = {row.number for row in group.tenures.filter(ended_ms=None)}
    assert held
    assert not held & cells(queries.at(group, now_ms - 1)).keys()
    assert held <= cells(queries.at(group, now_ms)).keys()


def test_who_owned_what_is_the_same_with_stored_maps(group: Group) -> None:
    assert history.store(group, made(group, random.Random(3)))
    at_ms = group.maps.order_by("at_ms")[5].at_ms + 3
    asked = {row.number: row.fence for row in tenures.at_moment(group, at_ms)}
    assert asked == {n: fence for n, (_, fence, _) in cells(queries.at(group, at_ms)).items()}


def test_changes_are_read_up_to_a_bound_and_in_order(store: Any, group_name: str) -> None:
    group = lived(group_name, store, random.Random(5))
    events = live_groups.events_after(group.name, "0-0", 10_000)
    span = min(event.at_ms for event in events), max(event.at_ms for event in events)
    every = queries.steps(group, *span, 10_000)
    assert len(every) > 20
    assert [(step.at_ms, step.fence) for step in every] == sorted(
        (step.at_ms, step.fence) for step in every
    )
    moments = sorted({step.at_ms for step in every})
    for most in (1, 2, 7, len(every) - 1, len(every) + 1):
        with CaptureQueriesContext(connection) as asked:
            assert queries.steps(group, *span, most) == every[:most]
            assert queries.moments(group, *span, most) == moments[:most]
        assert all(f"LIMIT {most}" in query["sql"] for query in asked)
