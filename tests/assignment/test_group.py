"""Who is gone, who can own, and what the incarnation must be: the coordinator before its plan."""

from dataclasses import replace

import pytest

from assignment.coordinator import (
    Evict,
    Known,
    expired_members,
    needs_incarnation,
    settings_of,
    unable_members,
    waiting_for,
    without_lock,
)
from assignment.errors import GroupMissing
from assignment.scripts import GroupRead, read_group_answer
from assignment.types import Reason
from tests.builders import GRACE_MS, LEASE_MS, NOW, SESSION_MS, grant, group, live, partition

LONG_AGO = NOW - SESSION_MS - 1


def raised(view: GroupRead, database: int = 0, **known: int) -> int | None:
    """The incarnation to set."""
    found = needs_incarnation(view, Known(incarnation=database, **known))
    return found.incarnation if found else None


def test_a_silent_member_is_evicted_with_the_beat_that_was_judged() -> None:
    view = group(live("a"), live("b", beat_at_ms=LONG_AGO))
    assert expired_members(view) == (Evict(member="b", beat=LONG_AGO, reason=Reason.LOST),)


def test_a_member_is_not_silent_before_its_session_is_over() -> None:
    assert expired_members(group(live("a", beat_at_ms=NOW - SESSION_MS))) == ()


def test_no_session_ends_while_it_is_quiet() -> None:
    silent = live("a", beat_at_ms=LONG_AGO)
    assert expired_members(group(silent, quiet_until_ms=NOW + 1)) == ()
    assert len(expired_members(group(silent, quiet_until_ms=NOW))) == 1


def test_no_session_ends_when_nobody_watched() -> None:
    assert expired_members(group(live("a", beat_at_ms=LONG_AGO), tick_ms=NOW - 3001)) == ()


def test_an_incarnation_stands_while_redis_is_the_same() -> None:
    assert raised(group(live("a", {0: 1})), 1) is None


def test_an_incarnation_below_the_databases_is_raised_although_redis_is_the_same() -> None:
    """A coordinator that slept through a wipe set what it had chosen before."""
    assert raised(group(live("a", {0: 1})), 7) == 8


@pytest.mark.parametrize(
    ("meta", "database", "expected"),
    [
        ({"incarnation": 0}, 0, 2),  # the grants are of incarnation 1
        ({"incarnation": 4}, 2, 5),
        ({"incarnation": 1}, 6, 7),
    ],
)
def test_a_restarted_redis_needs_one_above_all_that_is_known(
    meta: dict[str, int], database: int, expected: int
) -> None:
    view = group(live("a", {0: 1}), run_id="another", **meta)
    assert raised(view, database) == expected


def test_fences_that_members_report_count_when_redis_was_wiped() -> None:
    reported = group(live("a", {0: 5 * 2**32}, locked={}), run_id="another")
    assert raised(reported) == 7


def test_a_new_group_starts_at_incarnation_one() -> None:
    assert raised(group(incarnation=0, run_id="", settings=None)) == 1


def test_a_group_that_redis_lost_is_said_to_be_missing() -> None:
    empty = read_group_answer([b"1", b"run", *([] for _ in range(11))])
    with pytest.raises(GroupMissing, match="not configured"):
        settings_of(empty)


# --- waiting --------------------------------------------------------------------------------------


def test_a_member_asked_for_its_report_is_waited_for() -> None:
    view = group(live("a", asked_at_ms=NOW - 1, reported=False), live("b"))
    assert waiting_for(view) == ("a",)


def test_waiting_ends_after_one_session() -> None:
    assert waiting_for(group(live("a", asked_at_ms=NOW - SESSION_MS))) == ()


def test_waiting_ends_with_the_members_own_session() -> None:
    assert waiting_for(group(live("a", asked_at_ms=NOW - 1, beat_at_ms=LONG_AGO))) == ()


def test_nobody_waits_for_one_that_is_gone() -> None:
    view = replace(group(live("a")), asked={"gone": NOW})
    assert waiting_for(view) == ()


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
        {"target_at_ms": 1, "quiet_until_ms": NOW + 1},
        {"target_at_ms": 1, "run_id": "before"},
        {"target_at_ms": 1, "incarnation": 0},
    ],
    ids=["just assigned", "time unknown", "redis was away", "redis is another", "never granted"],
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
