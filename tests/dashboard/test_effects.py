"""The check can fail: each way in which events could be lost or doubled is found, by event."""

from dataclasses import replace

import pytest

from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry, pack_changes, pack_ids, unpack_ids
from dashboard.evaluation.judge import Appended, Commits, Effects, Stream, count_effects

ZERO, ONE = Partition("flights", 0), Partition("flights", 1)
EVENTS = range(20)
FINE = Effects(lost=(), doubled=(), faults=())


def at(n: int) -> Offset:
    return Offset(1000 + n, 0)


# Two events an entry, five entries a partition: 0 to 9 in the one, 10 to 19 in the other.
STREAM: Stream = {
    p: [Appended(at(n), (10 * i + 2 * n, 10 * i + 2 * n + 1)) for n in range(5)]
    for i, p in enumerate((ZERO, ONE))
}


def commit(first: Offset, last: Offset, ids: list[int], fence: int, total: int) -> ChangelogEntry:
    return ChangelogEntry(
        entry_id="1-0",
        from_offset=first,
        to_offset=last,
        fence=fence,
        total=total,
        events=len(ids),
        changes=pack_changes({}),
        ids=pack_ids(ids),
    )


COMMITS: Commits = {
    ZERO: [
        commit(START, at(1), [0, 1, 2, 3], 5, 4),
        commit(at(1), at(4), [4, 5, 6, 7, 8, 9], 7, 10),
    ],
    ONE: [commit(START, at(4), list(range(10, 20)), 6, 10)],
}


def with_ids(index: int, ids: list[int]) -> Commits:
    """The commits of partition 0, one of them made from other events than its range holds."""
    entries = list(COMMITS[ZERO])
    entries[index] = replace(entries[index], ids=pack_ids(ids))
    return {**COMMITS, ZERO: entries}


def test_a_run_without_fault_has_every_event_once() -> None:
    assert count_effects(EVENTS, COMMITS, STREAM) == FINE


def test_one_event_dropped_is_lost() -> None:
    found = count_effects(EVENTS, with_ids(1, [4, 5, 6, 7, 8]), STREAM)
    assert found.lost == (9,)
    assert found.doubled == ()


@pytest.mark.parametrize("ids", [[0, 0, 1, 2, 3], [0, 1, 2, 3, 4]], ids=["in one", "in two"])
def test_one_event_applied_twice_is_doubled(ids: list[int]) -> None:
    found = count_effects(EVENTS, with_ids(0, ids), STREAM)
    assert found.lost == ()
    assert found.doubled == ((0,) if ids[1] == 0 else (4,))


def test_one_dropped_and_another_of_the_same_key_applied_twice_do_not_cancel_out() -> None:
    """Events 4 and 5 have one key, so every sum comes out right."""
    found = count_effects(EVENTS, with_ids(1, [5, 5, 6, 7, 8, 9]), STREAM)
    assert (found.lost, found.doubled) == ((4,), (5,))


def test_the_ranges_find_what_the_ids_do_not_show() -> None:
    """A commit that starts before the end of the last one, and does not tell the ids of it."""
    overlapping = replace(COMMITS[ZERO][1], from_offset=at(0))
    found = count_effects(EVENTS, {**COMMITS, ZERO: [COMMITS[ZERO][0], overlapping]}, STREAM)
    assert found.doubled == (2, 3)
    assert f"flights:0: a commit starts at {at(0)}, not at {at(1)}" in found.faults


def test_a_commit_that_never_came_loses_its_events() -> None:
    found = count_effects(EVENTS, {ONE: COMMITS[ONE]}, STREAM)
    assert found.lost == tuple(range(10))


def test_a_gap_between_two_commits_loses_what_lies_in_it() -> None:
    late = replace(COMMITS[ZERO][1], from_offset=at(2), ids=pack_ids([6, 7, 8, 9]), events=4)
    found = count_effects(EVENTS, {**COMMITS, ZERO: [COMMITS[ZERO][0], late]}, STREAM)
    assert found.lost == (4, 5)


def test_a_stored_event_whose_acknowledgement_got_lost_is_no_fault() -> None:
    assert count_effects(range(19), COMMITS, STREAM) == FINE


def test_an_older_fence_after_a_newer_one_and_a_wrong_total_are_named() -> None:
    entries = [COMMITS[ZERO][0], replace(COMMITS[ZERO][1], fence=4, total=9)]
    faults = count_effects(EVENTS, {**COMMITS, ZERO: entries}, STREAM).faults
    assert faults == ("flights:0: fence 4 commits after 5", "flights:0: total is 9, not 10")


def test_ids_keep_their_count_when_packed() -> None:
    assert unpack_ids(COMMITS[ZERO][0].ids) == [0, 1, 2, 3]
