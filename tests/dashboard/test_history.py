"""History equals what the locks saw: every interval with its fence, start and end."""

import json
import random
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from assignment.scripts.lock_events import LockEvent
from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.coordinator import history as storing
from dashboard.live import groups as live_groups
from dashboard.models import Group, HistoryGap, Tenure
from dashboard.records.queries import tenures
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.scenes import lived

pytestmark = pytest.mark.django_db
Interval = tuple[str, str, int, int, int | None, str | None]


def replayed(events: list[LockEvent]) -> set[Interval]:
    """The locks' own account, by rules of its own: partition, member, fence, start, end, how."""
    begun = {(str(e.partition), e.fence): e for e in events if e.kind == "acquired"}
    ended = {(str(e.partition), e.fence): e for e in events if e.kind in ("released", "expired")}
    assert ended.keys() <= begun.keys()
    return {
        (p, e.member_id, fence, e.at_ms, end.at_ms if end else None, end.kind if end else None)
        for (p, fence), e in begun.items()
        for end in [ended.get((p, fence))]
    }


def stored(group: Group) -> set[Interval]:
    rows = Tenure.objects.filter(group=group)
    return set(rows.values_list("partition", "member_id", "fence", "started_ms", "ended_ms", "end"))


@pytest.mark.parametrize("seed", range(3))
def test_every_interval_equals_the_event_stream(
    store: Any, group_name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_groups, "EVENTS_AT_ONCE", 7)
    group = lived(group_name, store, random.Random(seed))
    events = live_groups.events_after(group.name, "0-0", 10_000)
    assert len(events) > 20
    assert stored(group) == replayed(events)
    assert not HistoryGap.objects.exists()


def test_the_same_events_twice_change_nothing(group: Group, agent: FakeAgent) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    one, other = Group.objects.get(pk=group.pk), Group.objects.get(pk=group.pk)
    assert coordinator.store_events(one) == 4
    events = live_groups.events_after(group.name, other.events_cursor)
    assert storing.store(other, events) is False, "another process was quicker"
    assert coordinator.store_events(Group.objects.get(pk=group.pk)) == 0
    assert Tenure.objects.count() == 4


def test_lost_events_are_a_gap_and_nothing_is_made_up(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    agent.release(tuple(agent.held))
    store.xtrim(GroupKeys(group.name).events, maxlen=3, approximate=False)
    tick()
    assert [(g.events_lost) for g in HistoryGap.objects.all()] == [5]
    assert Tenure.objects.count() == 0, "ends without a start make no interval"
    answer = tenures.owner_at(group, Partition(group.stream, 0), 1)
    assert answer.owner is None
    assert answer.doubtful


def test_numbers_that_jump_at_every_event_are_a_few_gaps(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    """Members may write events themselves: they fill no table with them, nor the tick's time."""
    fields = {"type": "acquired", "partition": f"{group.stream}:0", "member": "a", "at_ms": "5"}
    for number in range(40):
        event = fields | {"seq": str(10 * number + 9), "fence": str(number + 1)}
        store.xadd(GroupKeys(group.name).events, event)
    store.hset(GroupKeys(group.name).meta, "event_seq", 400)
    tick()
    lost = [gap.events_lost for gap in HistoryGap.objects.order_by("pk")]
    assert lost == [8, *[9] * 8, 9 * 31]
    assert Tenure.objects.count() == 40


def test_a_refused_commit_is_noted_at_its_tenure(group: Group, agent: FakeAgent) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    event = LockEvent(
        entry_id="9999999999999-0",
        seq=5,
        kind="fenced",
        partition=Partition(group.stream, 2),
        member_id="a",
        fence=agent.held[Partition(group.stream, 2)],
        at_ms=123,
    )
    storing.store(Group.objects.get(pk=group.pk), [event])
    assert Tenure.objects.get(number=2).refused_at_ms == 123


def handed_over(group: Group) -> tuple[Tenure, Tenure]:
    first, second = FakeAgent(group, "a"), FakeAgent(group, "b")
    first.start()
    coordinator.rebalance(group.name)
    first.follow()
    first.leave()
    second.start()
    coordinator.rebalance(group.name)
    second.follow()
    tick()
    old, new = Tenure.objects.filter(group=group, number=3).order_by("fence")
    return old, new


def test_owner_at_both_sides_of_a_handover(group: Group) -> None:
    old, new = handed_over(group)
    partition = Partition(group.stream, 3)
    assert old.ended_ms is not None
    Tenure.objects.filter(pk=old.pk).update(started_ms=1000, ended_ms=2000)
    Tenure.objects.filter(pk=new.pk).update(started_ms=2500)
    asked = {
        at: tenures.owner_at(group, partition, at).owner
        for at in (999, 1000, 1999, 2000, 2499, 2500)
    }
    assert asked == {999: None, 1000: "a", 1999: "a", 2000: None, 2499: None, 2500: "b"}


def test_the_owner_command(group: Group, capsys: pytest.CaptureFixture[str]) -> None:
    _, new = handed_over(group)
    capsys.readouterr()
    call_command("owner", group.name, "3", at=str(new.started_ms), json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["owner"], told["fence"], told["from_ms"]) == ("b", str(new.fence), new.started_ms)
    call_command("owner", group.name, f"{group.stream}:3", at="2001-01-01T00:00:00")
    assert "had no owner at 2001-01-01T00:00:00.000+00:00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nowhere", "1"), "'nowhere'"),
        (("{group}", "4"), "'4'"),
        (("{group}", "other:1"), "'other:1'"),
    ],
)
def test_the_owner_command_names_what_is_wrong(
    group: Group, arguments: tuple[str, str], named: str
) -> None:
    name, partition = arguments
    with pytest.raises(CommandError, match=named):
        call_command("owner", name.format(group=group.name), partition, at="2026-01-01")
    with pytest.raises(CommandError, match="'soon'"):
        call_command("owner", group.name, "1", at="soon")
