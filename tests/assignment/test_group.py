"""Who is gone, who can own, and what the incarnation must be: the coordinator before its plan."""

from dataclasses import replace

import pytest

from assignment.coordinator.incarnation import Known, needs_incarnation
from assignment.coordinator.reading import ticker_away, unable_members, without_lock
from assignment.coordinator.stays import expired_members
from assignment.scripts.group_read import Gap, GroupRead
from assignment.types import Drain, GroupSettings
from tests.builders import GRACE_MS, LEASE_MS, NOW, SESSION_MS, grant, group, live, partition

LONG_AGO = NOW - SESSION_MS - 1
INSTANCE_MS = GroupSettings(stream="s", partitions=1).instance_timeout_ms


def raised(view: GroupRead, database: int = 0, **known: int) -> int | None:
    """The incarnation to set."""
    found = needs_incarnation(view, Known(incarnation=database, **known))
    return found.incarnation if found else None


def test_a_silent_member_is_evicted_with_the_beat_that_was_judged() -> None:
    view = group(live("a"), live("b", beat_at_ms=LONG_AGO))
    assert expired_members(view) == {"b": LONG_AGO}


def test_a_member_is_not_silent_before_its_session_is_over() -> None:
    assert expired_members(group(live("a", beat_at_ms=NOW - SESSION_MS))) == {}


def test_only_the_time_in_which_nobody_could_know_is_not_counted() -> None:
    """An agent and Redis that were killed together: no session begins anew."""
    gap = Gap(NOW - 9_000, NOW - 7_000)
    silent = live("a", beat_at_ms=NOW - SESSION_MS - 2_000)
    assert expired_members(group(silent, away=(gap,))) == {}
    silent = live("a", beat_at_ms=NOW - SESSION_MS - 2_001)
    assert len(expired_members(group(silent, away=(gap,)))) == 1
    assert expired_members(group(silent, away=(gap, Gap(NOW - 9_500, NOW - 9_400)))) == {}


def test_an_instance_that_stopped_is_awaited_for_its_own_time() -> None:
    since_ms = NOW - INSTANCE_MS
    stopped = live("a", stopped=True, away_since_ms=since_ms, beat_at_ms=since_ms)
    assert expired_members(group(stopped)) == {}
    assert without_lock(group(replace(stopped, target=frozenset({3})), target_at_ms=1)) == {}
    late = replace(stopped, away_since_ms=since_ms - 1)
    assert expired_members(group(late)) == {"a": since_ms}
    gap = Gap(NOW - 9_000, NOW - 8_999)
    assert expired_members(group(late, away=(gap,))) == {}, "nobody could have joined meanwhile"


def test_an_instance_that_is_to_leave_is_not_awaited() -> None:
    told = live("a", stopped=True, away_since_ms=NOW - 5, beat_at_ms=NOW - 5, drain=Drain.LEAVING)
    assert expired_members(group(told)) == {"a": NOW - 5}


def test_an_instance_that_crashed_again_while_it_was_awaited_has_that_time_and_no_more() -> None:
    crashed = live("a", away_since_ms=NOW - INSTANCE_MS, beat_at_ms=LONG_AGO)
    assert expired_members(group(crashed)) == {}
    assert expired_members(group(replace(crashed, away_since_ms=NOW - INSTANCE_MS - 1)))
    lives = live("a", away_since_ms=NOW - INSTANCE_MS - 1)
    assert expired_members(group(lives)) == {}, "it renews"


def test_a_late_tick_judges_by_what_it_reads() -> None:
    view = group(live("a", beat_at_ms=LONG_AGO), tick_ms=NOW - 60_000)
    assert len(expired_members(view)) == 1


def test_nobody_ticked_when_no_sign_of_a_ticker_came_for_three_seconds() -> None:
    before = Gap(1, 2)
    assert ticker_away(NOW, NOW - 3_000, before) == before
    assert ticker_away(NOW, NOW - 3_001, before) == Gap(NOW - 3_001, NOW)
    assert ticker_away(NOW, None, before) == Gap(0, NOW)


# --- ability --------------------------------------------------------------------------------------


def test_a_member_whose_consumer_is_not_ready_is_unable() -> None:
    view = group(live("a", able=False), live("b"))
    assert unable_members(view) == {"a": "consumer not ready"}


PATIENCE = LEASE_MS + GRACE_MS


def test_an_assigned_partition_that_nobody_locks_for_long_makes_its_member_unable() -> None:
    view = group(live("a", target=(3, 4)), target_at_ms=NOW - PATIENCE - 1)
    assert without_lock(view) == {"a": partition(3)}
    assert unable_members(view) == {"a": "flights:3 assigned, its lock not taken"}


@pytest.mark.parametrize(
    "meta",
    [
        {"target_at_ms": NOW - PATIENCE},
        {"target_at_ms": 0},
        {"target_at_ms": 1, "away": (Gap(NOW - 1, NOW - SESSION_MS + 1),)},
        {"target_at_ms": NOW - PATIENCE - 1, "tick_ms": NOW - PATIENCE - 1},
        {"target_at_ms": 1, "run_id": "before"},
        {"target_at_ms": 1, "incarnation": 0},
        {"target_at_ms": 1, "incarnation_at_ms": NOW - PATIENCE},
    ],
    ids=[
        "just assigned",
        "time unknown",
        "redis was away",
        "its clock was set",
        "redis is another",
        "never granted",
        "granted since just now",
    ],
)
def test_a_lock_that_could_not_be_taken_yet_is_no_inability(meta: dict[str, object]) -> None:
    assert without_lock(group(live("a", target=(3,)), **meta)) == {}


def test_a_lock_held_by_another_is_no_inability() -> None:
    view = group(live("a", target=(3,)), live("b", {3: 1}, target=()), target_at_ms=1)
    assert without_lock(view) == {}


def test_a_lock_that_just_ended_is_no_inability() -> None:
    ended = grant("b", until_ms=NOW - PATIENCE, ended="released")
    assert without_lock(group(live("a", target=(3,)), grants={3: ended}, target_at_ms=1)) == {}
    older = replace(ended, until_ms=NOW - PATIENCE - 1)
    assert without_lock(group(live("a", target=(3,)), grants={3: older}, target_at_ms=1)) == {
        "a": partition(3)
    }


def test_a_member_that_just_became_able_has_its_time_from_then_on() -> None:
    view = group(live("a", target=(3,), able_at_ms=NOW - 5), target_at_ms=1)
    assert without_lock(view) == {}
