"""History is kept beside the tick, exactly once whoever dies or runs at once, each in turn."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection

from assignment.coordinator.effects import WantHistory
from assignment.scripts.lock_events import LockEvent
from dashboard import coordinator
from dashboard.coordinator import history, keeping, resting
from dashboard.coordinator.carrying import Here, perform
from dashboard.live import groups as live_groups
from dashboard.live import health, push, queue
from dashboard.models import Group, HistoryGap, Rebalance, RebalanceOutcome, Tenure
from tests.dashboard.agents import FakeAgent, make_group, tick
from tests.dashboard.test_history import replayed, stored

pytestmark = pytest.mark.django_db
BATCH = 3


class Died(BaseException):
    """The process was killed here."""


@pytest.fixture(autouse=True)
def every_tick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at a group that waits for its history, however long the last look at it took."""
    monkeypatch.setattr(resting, "WAITS_MOST_MS", 0)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_groups, "EVENTS_AT_ONCE", BATCH)


def handed_over(group: Group) -> list[LockEvent]:
    """What two members' locks did: nothing of it is history yet."""
    first, second = FakeAgent(group, "a"), FakeAgent(group, "b")
    first.start()
    coordinator.rebalance(group.name)
    first.follow()
    second.start()
    coordinator.rebalance(group.name)
    for agent in (first, second):
        agent.follow()
    return live_groups.events_after(group.name, live_groups.FIRST_ENTRY, 1_000)


def is_whole(group: Group, events: list[LockEvent]) -> bool:
    group.refresh_from_db()
    is_exact = stored(group) == replayed(events) and not HistoryGap.objects.exists()
    return is_exact and group.last_event_seq == events[-1].seq


# --- beside the tick ------------------------------------------------------------------------------


def test_a_tick_keeps_nothing_itself_and_wishes_once(group: Group, published: Any) -> None:
    events = handed_over(group)
    before = published()
    for _ in range(3):
        coordinator.tick()
    assert (Tenure.objects.count(), published()) == (0, before + 1)
    assert coordinator.keep_history() == len(events)
    assert is_whole(group, events)


def test_a_tick_with_nothing_new_wishes_for_nothing(group: Group, published: Any) -> None:
    handed_over(group)
    tick()
    before = published()
    coordinator.tick()
    assert published() == before
    assert not queue.is_history_wanted()


def test_a_tick_does_not_wait_for_whoever_keeps_history(group: Group, published: Any) -> None:
    events = handed_over(group)
    with queue.keeping_history():
        assert coordinator.tick() == 1
        assert coordinator.keep_history() == 0, "another process is at it"
    assert Tenure.objects.count() == 0
    tick()
    assert is_whole(group, events)


def test_a_record_waits_for_the_history_and_is_completed_with_it(group: Group) -> None:
    handed_over(group)
    coordinator.tick()
    row = Rebalance.objects.order_by("target_epoch").last()
    assert row is not None and row.outcome == RebalanceOutcome.RUNNING
    coordinator.keep_history()
    row.refresh_from_db()
    ends = Tenure.objects.exclude(ended_ms=None).values_list("ended_ms", flat=True)
    last_ms = max(Tenure.objects.values_list("started_ms", flat=True))
    assert (row.outcome, row.finished_at_ms) == (RebalanceOutcome.DONE, last_ms)
    assert row.ownership_gap_ms == sum(
        max(0, tenure.started_ms - ended_ms)
        for tenure, ended_ms in zip(Tenure.objects.filter(member_id="b"), ends, strict=True)
    )


def test_a_record_is_not_made_of_history_that_lacks_its_last_events(
    group: Group, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = handed_over(group)
    coordinator.tick()
    monkeypatch.setattr(keeping, "RUN_S", 0.0)
    group.refresh_from_db()
    assert coordinator.store_events(group) == BATCH
    coordinator.tick()
    assert not Rebalance.objects.filter(outcome=RebalanceOutcome.DONE).exists()
    monkeypatch.undo()
    tick()
    assert is_whole(group, events)
    assert Rebalance.objects.filter(outcome=RebalanceOutcome.DONE).exists()


# --- exactly once ---------------------------------------------------------------------------------


def test_of_two_that_keep_the_same_history_each_event_is_stored_once(
    group: Group, small_batches: None
) -> None:
    """Both hold what they take for the lease, and have read the same batch."""
    events = handed_over(group)
    one, other = Group.objects.get(pk=group.pk), Group.objects.get(pk=group.pk)
    page = live_groups.events_after(group.name, other.events_cursor, BATCH)
    assert coordinator.store_events(one) == BATCH
    assert history.store(other, page) is False
    assert other.events_cursor == one.events_cursor
    while coordinator.store_events(other) + coordinator.store_events(one):
        pass
    assert is_whole(group, events)


@pytest.mark.django_db(transaction=True)
def test_two_that_keep_history_at_the_same_time_store_each_event_once(
    store: Any, group_name: str, small_batches: None
) -> None:
    """As when one stood still for longer than its lease."""
    group = make_group(group_name, partitions=40)
    events = handed_over(group)
    together = Barrier(2)

    def keep() -> int:
        together.wait()
        row, count = Group.objects.get(pk=group.pk), 0
        while live_groups.has_events_after(row.name, row.events_cursor):
            count += coordinator.store_events(row)
        connection.close()
        return count

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(keep) for _ in range(2)]
        assert sum(one.result() for one in both) == len(events)
    assert is_whole(group, events)


def test_what_was_read_before_redis_may_have_lost_it_is_not_stored_after(group: Group) -> None:
    """New events' ids go on above the position that stood when the incarnation was raised."""
    events = handed_over(group)
    slow = Group.objects.get(pk=group.pk)
    Group.objects.filter(pk=group.pk).update(incarnation=slow.incarnation + 1)
    assert history.store(slow, events) is False
    assert Tenure.objects.count() == 0
    assert history.store(slow, events), "read again under the new one"


@pytest.mark.parametrize("after", range(5))
def test_who_dies_at_any_statement_leaves_whole_batches(
    group: Group, small_batches: None, after: int
) -> None:
    events = handed_over(group)
    left = [after]

    def die(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.lstrip().startswith(("UPDATE", "INSERT")):
            if not left[0]:
                raise Died
            left[0] -= 1
        return execute(sql, *rest)

    coordinator.tick()
    with pytest.raises(Died), connection.execute_wrapper(die):
        coordinator.keep_history()
    group.refresh_from_db()
    known = [e for e in events if e.seq <= group.last_event_seq]
    assert len(known) % BATCH == 0
    assert stored(group) == replayed(known)
    tick()
    assert is_whole(group, events), "the next tick wished for what died with the run"


def test_a_database_that_is_away_is_waited_for(group: Group, published: Any) -> None:
    events = handed_over(group)
    coordinator.tick()

    def refuse(execute: Any, sql: str, *rest: Any) -> Any:
        raise OperationalError("away")

    with connection.execute_wrapper(refuse):
        assert coordinator.keep_history() == 0
    tick()
    assert is_whole(group, events)


# --- in turn --------------------------------------------------------------------------------------


def test_a_group_that_has_much_lets_others_have_their_turn(
    store: Any, group_name: str, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = {name: make_group(name) for name in (f"{group_name}-1", f"{group_name}-2")}
    events = {name: handed_over(group) for name, group in groups.items()}
    coordinator.tick()
    turns, store_one = list[str](), keeping.store_events

    def counted(group: Group) -> int:
        turns.append(group.name)
        return store_one(group)

    monkeypatch.setattr(keeping, "store_events", counted)
    coordinator.keep_history()
    assert turns[:4] == [*groups, *groups]
    assert all(is_whole(group, events[name]) for name, group in groups.items())


def test_many_groups_are_asked_once_each_and_who_wishes_a_few_times_a_second(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [make_group(f"{group_name}-{number}") for number in range(5)]
    for group in groups:
        handed_over(group)
    coordinator.tick()
    asked = dict[str, int]()

    def counting(of: Any, name: str) -> None:
        inner = getattr(of, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            asked[name] = asked.get(name, 0) + 1
            return inner(*arguments, **options)

        monkeypatch.setattr(of, name, counted)

    counting(keeping, "store_events")
    counting(queue, "last_ticker")
    counting(queue, "take_wanted_history")
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(keeping, "time", clock)
    monkeypatch.setattr(queue, "time", clock)
    coordinator.keep_history()
    assert asked == {"store_events": 5, "last_ticker": 1, "take_wanted_history": 2}
    for group in groups:
        group.refresh_from_db()
        assert not live_groups.has_events_after(group.name, group.events_cursor)


def test_who_wishes_meanwhile_has_its_turn_in_the_same_run(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (make_group(f"{group_name}-{number}") for number in range(2))
    events = [handed_over(group) for group in (first, second)][1]
    queue.want_history({first.name: False})
    store_one = keeping.store_events

    def wishing(group: Group) -> int:
        if group.name == first.name:
            queue.want_history({second.name: False})
        return store_one(group)

    monkeypatch.setattr(keeping, "store_events", wishing)
    coordinator.keep_history()
    assert is_whole(second, events)


def test_how_many_events_redis_has_is_looked_at_now_and_then(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = list[int]()
    monkeypatch.setattr(live_groups, "trim_events", lambda *of: kept.append(of[-1]))
    monkeypatch.setattr(history, "EVENTS_BETWEEN", 10)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    for _ in range(6):  # four locks each time
        agent.follow()
        agent.release(tuple(agent.held))
        group.refresh_from_db()
        assert coordinator.store_events(group)
    assert group.last_event_seq == 48
    assert kept == [history.EVENTS_KEPT] * 4


def test_what_one_run_has_no_time_for_is_the_next_tasks(
    group: Group, small_batches: None, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = handed_over(group)
    coordinator.tick()
    before, times = published(), iter(range(1_000))
    clock = SimpleNamespace(monotonic=lambda: 1.5 * next(times))
    monkeypatch.setattr(keeping, "time", clock)
    assert coordinator.keep_history() == BATCH
    assert published() == before + 1, "without a tick"
    while queue.is_history_wanted():
        coordinator.keep_history()
    assert is_whole(group, events)
    assert Rebalance.objects.filter(outcome=RebalanceOutcome.DONE).exists()


def test_a_group_whose_history_cannot_be_kept_stops_no_other(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = make_group(f"{group_name}-1"), make_group(f"{group_name}-2")
    events = [handed_over(group) for group in (bad, good)][1]
    coordinator.tick()
    store_one = keeping.store_events

    def failing(group: Group) -> int:
        assert group.name != bad.name, "a bug"
        return store_one(group)

    monkeypatch.setattr(keeping, "store_events", failing)
    coordinator.keep_history()
    assert is_whole(good, events)
    assert not Tenure.objects.filter(group=bad).exists()
    coordinator.tick()
    assert health.look().failing_named == (bad.name,)
    monkeypatch.setattr(keeping, "store_events", store_one)
    coordinator.keep_history()
    coordinator.tick()
    assert health.look().failing_groups == 0


# --- what others are told -------------------------------------------------------------------------


def test_browsers_are_told_once_of_what_a_run_kept(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a rebalance waited for its record or not."""
    awaited, other = (make_group(f"{group_name}-{number}") for number in range(2))
    for group in (awaited, other):
        handed_over(group)
    told = list[tuple[str, str]]()
    monkeypatch.setattr(push, "push", lambda *of: told.append(of))
    queue.want_history({awaited.name: True, other.name: False})
    coordinator.keep_history()
    assert sorted(told) == sorted((group.name, "history") for group in (awaited, other))
    assert awaited.rebalances.filter(outcome=RebalanceOutcome.DONE).exists()


def test_who_looks_knows_what_another_process_stored(group: Group) -> None:
    here = Here(group.name, Group.objects.get(pk=group.pk))
    events = handed_over(group)
    coordinator.store_events(Group.objects.get(pk=group.pk))
    assert perform(here, WantHistory(events[-1].seq, awaited=True)), "it is whole by now"
    assert here.row is not None
    assert here.row.last_event_seq == events[-1].seq
    assert not queue.is_history_wanted()
