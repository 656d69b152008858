"""What a fault did, on small histories written by hand."""

from dataclasses import replace

import pytest

from assignment.errors import InvalidInput
from assignment.types import INCARNATION_STEP
from dashboard.evaluation import steps
from dashboard.evaluation.figures import Commit, Interval, run_coverage
from dashboard.evaluation.steps import Window

STEP = Window(
    name="kill", before_ms=0, began_ms=1_000, ended_ms=9_000, bound_ms=3_000, victims=("a",)
)


def interval(partition: str, member: str, fence: int, started_ms: int, **more: object) -> Interval:
    return Interval(
        partition=partition,
        member=member,
        fence=fence,
        started_ms=started_ms,
        **more,  # type: ignore[arg-type]
    )


LOST = interval("s:0", "a", 1, 0, ended_ms=2_500, end="expired")
TAKEN = interval("s:0", "b", 2, 2_700)
OTHER = interval("s:1", "b", 1, 0)
HISTORY = [TAKEN, OTHER, LOST]  # in no order: fences order them
ENDED = replace(OTHER, ended_ms=2_000, end="released")
RESTART = replace(STEP, name="redis_restart", victims=(), recovered_ms=700, over_ms=8_000)


def test_recovery_ends_when_the_last_lost_partition_is_owned_again() -> None:
    assert steps.recovery_ms(HISTORY, STEP) == 1_700


def test_partition_that_nobody_took_is_no_recovery() -> None:
    assert steps.recovery_ms([LOST, OTHER], STEP) is None


def test_step_whose_victim_owned_nothing_is_an_error_of_the_check() -> None:
    for window in (replace(STEP, victims=("c",)), replace(STEP, began_ms=2_600)):
        with pytest.raises(InvalidInput, match="owned nothing"):
            steps.of_step(HISTORY, [], window)


def test_overlap_is_time_with_two_owners_over_the_whole_run() -> None:
    assert run_coverage(HISTORY, until_ms=6_000).overlap_ms == 0
    late = [replace(LOST, ended_ms=2_800), TAKEN, OTHER]
    assert run_coverage(late, until_ms=6_000).overlap_ms == 100


def test_owner_that_never_ended_overlaps_with_the_next() -> None:
    found = run_coverage([replace(LOST, ended_ms=None), TAKEN], until_ms=6_000)
    assert found.overlap_ms == 3_300


def test_unowned_counts_from_when_every_partition_had_its_first_owner() -> None:
    ended = replace(TAKEN, ended_ms=5_000)
    found = run_coverage([LOST, ended, OTHER], until_ms=6_000)
    assert found.unowned_ms == 200 + 1_000
    later = replace(OTHER, started_ms=2_600)
    assert run_coverage([LOST, ended, later], until_ms=6_000).unowned_ms == 100 + 1_000


def changed(history: list[Interval], window: Window = STEP) -> tuple[object, object, object]:
    found = steps.of_step(history, [], window)
    names = ("others_owners_changed", "others_fences_changed", "incarnation_raised")
    return tuple(found[name] for name in names)


def test_partition_of_another_that_changed_hands_changed_its_owner_and_its_fence() -> None:
    assert changed(HISTORY) == (0, 0, False)
    assert changed([LOST, TAKEN, ENDED, interval("s:1", "c", 2, 2_000)]) == (1, 1, False)


def test_partition_of_another_that_nobody_has_changed_its_owner() -> None:
    assert changed([LOST, TAKEN, ENDED]) == (1, 1, False)
    late = replace(OTHER, ended_ms=5_000)
    assert changed([LOST, TAKEN, late]) == (0, 0, False), "the fault was over"


def test_partition_that_went_and_came_back_changed_its_owner() -> None:
    away = interval("s:1", "c", 2, 2_000, ended_ms=2_400, end="released")
    assert changed([LOST, TAKEN, ENDED, away, interval("s:1", "b", 3, 2_400)]) == (1, 1, False)


def test_owner_that_acquires_anew_changes_its_fence_alone() -> None:
    assert changed([LOST, TAKEN, ENDED, interval("s:1", "b", 2, 2_000)]) == (0, 1, False)
    higher = interval("s:1", "b", INCARNATION_STEP + 1, 2_000)
    assert changed([LOST, TAKEN, ENDED, higher]) == (0, 1, True)


def test_where_nobody_was_hurt_nothing_moves_until_the_step_ends() -> None:
    """Recovered at 1,700, the others' commits looked at until 8,000, ended at 9,000."""
    late = replace(OTHER, ended_ms=8_500)
    higher = interval("s:1", "c", INCARNATION_STEP + 1, 8_500)
    assert changed([late, higher], RESTART) == (1, 1, True)


def test_commits_under_the_owners_next_fence_are_no_gap() -> None:
    history = [ENDED, interval("s:1", "b", INCARNATION_STEP + 1, 2_000)]
    commits = [Commit(1_900, "s:1", 1), Commit(2_700, "s:1", INCARNATION_STEP + 1)]
    assert steps.longest_gap_ms(commits, history, RESTART, 1_000, 3_500) == 900
    stolen = [ENDED, interval("s:1", "c", INCARNATION_STEP + 1, 2_000)]
    assert steps.longest_gap_ms(commits, stolen, RESTART, 1_000, 3_500) == 1_600


def test_longest_gap_is_of_the_others_only_and_reaches_to_the_end() -> None:
    commits = [
        Commit(1_100, "s:1", 1),
        Commit(1_500, "s:1", 1),
        Commit(1_900, "s:0", 1),  # the victim's
        Commit(2_000, "s:0", 2),  # the taker's new partition: another tenure
    ]
    assert steps.longest_gap_ms(commits, HISTORY, STEP, 1_000, 2_100) == 600
    assert steps.longest_gap_ms([], HISTORY, STEP, 1_000, 2_100) == 1_100


def test_step_counts_what_ended_and_was_refused_within_it() -> None:
    refused = replace(LOST, refused_at_ms=3_000, refused=2)
    earlier = interval("s:2", "a", 1, 0, ended_ms=500, end="expired", refused_at_ms=700, refused=5)
    found = steps.of_step([refused, TAKEN, OTHER, earlier], [], STEP)
    assert (found["expired_leases"], found["refused_commits"]) == (1, 2)
    assert (found["recovered_ms"], found["bound_ms"]) == (1_700, 3_000)
