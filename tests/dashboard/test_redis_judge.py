"""The judge of redis_check can fail: each way in which a step does not hold is named."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from django.core.management.base import BaseCommand, CommandError
from msgspec import structs

from assignment.scripts.lock_events import LockEvent
from assignment.types import START, GroupSettings, Offset, Partition
from assignment.wire import ChangelogEntry, pack_changes, pack_ids
from dashboard.evaluation.checks import redis_judge, redis_trees, scaling
from dashboard.evaluation.checks.pages import Answer, judge
from dashboard.evaluation.checks.redis_judge import Gap, Step, Tenure
from dashboard.evaluation.judge import NOTHING, Appended, Content, effects, joined
from dashboard.management.commands import fault_check, redis_check, scaling_check

P = Partition("flights", 0)
TIMINGS = GroupSettings(stream="any", partitions=1)
RIGHT = Step(
    name="wipe",
    how="struck",
    recovered_ms=9_000,
    bound_ms=38_000,
    lost=0,
    doubled=0,
    destroyed=3,
    destroyed_counted=3,
    moves_without_cause=0,
    agents_ended=0,
    history_complete=True,
)


def at(n: int) -> Offset:
    return Offset(1_000 + n, 0) if n else START


def commit(first: int, last: int, fence: int = 5) -> ChangelogEntry:
    """Of entries first + 1 to last, each the one event of its own number."""
    ids = range(first + 1, last + 1)
    return ChangelogEntry(
        entry_id="1-0",
        from_offset=at(first),
        to_offset=at(last),
        fence=fence,
        total=last,
        events=len(ids),
        changes=pack_changes({}),
        ids=pack_ids(ids),
    )


def content(stream: Sequence[int], *commits: ChangelogEntry, committed: int = 0) -> Content:
    return Content(
        stream={P: [Appended(at(n), (n,)) for n in stream]},
        commits={P: commits},
        offsets={P: at(committed)},
    )


def judged(
    name: str, acknowledged: Sequence[int], past: Content, now: Content
) -> tuple[set[int], ...]:
    """Lost, doubled, destroyed; nothing contradicts itself."""
    left = now.ids() if name in redis_judge.LOSING else None
    found = effects(acknowledged, joined(past, now), left)
    assert found.faults == ()
    return set(found.lost), set(found.doubled), set(found.destroyed)


# --- effects


def test_wipe_destroys_what_was_above_the_restored_offset() -> None:
    past = content(range(1, 9), commit(0, 4), commit(4, 6))
    now = content([9, 10], replace(commit(8, 10), from_offset=at(4), total=6))
    assert judged("wipe", range(1, 11), past, now) == (set(), set(), {5, 6, 7, 8})


def test_restored_offset_counts_before_anything_is_committed_on_it() -> None:
    past = content(range(1, 7), commit(0, 4), commit(4, 6))
    now = content([], committed=4)
    assert judged("wipe", range(1, 7), past, now) == (set(), set(), {5, 6})


def test_older_state_whose_stream_lived_on_destroys_nothing_once_it_is_processed_again() -> None:
    past = content(range(1, 7), commit(0, 2), commit(2, 6))
    now = content(range(1, 7), commit(0, 2), commit(2, 5, fence=9), commit(5, 6, fence=9))
    assert judged("lost_writes", range(1, 7), past, now) == (set(), set(), set())


def test_state_moved_forward_to_a_newer_snapshot_keeps_the_effects_between() -> None:
    past = content(range(1, 9), commit(0, 2), commit(2, 4), commit(4, 8))
    now = content([1, 2, 9], commit(0, 2), replace(commit(8, 9), from_offset=at(4), total=5))
    assert judged("failover", range(1, 10), past, now) == (set(), set(), {5, 6, 7, 8})


def test_event_that_lies_in_the_stream_without_an_effect_is_lost() -> None:
    now = content(range(1, 7), commit(0, 4))
    assert judged("wipe", range(1, 7), NOTHING, now) == ({5, 6}, set(), set())


def test_event_sent_again_above_what_is_judged_is_no_loss_of_the_stream() -> None:
    now = content([9], replace(commit(8, 9), from_offset=START, total=1))
    sent_again = Content(
        stream={P: [*now.stream[P], Appended(at(12), (3,))]},
        commits=now.commits,
        offsets={},
    )
    found = effects([3, 9], sent_again, sent_again.ids({P: at(9)}))
    assert (found.lost, found.destroyed) == ((), (3,))


def test_effect_on_top_of_the_restored_one_is_doubled() -> None:
    past = content(range(1, 5), commit(0, 4))
    again = replace(commit(3, 4), from_offset=at(4), to_offset=at(5), total=5)
    now = Content(stream={P: [Appended(at(5), (4,))]}, commits={P: [again]}, offsets={})
    assert judged("wipe", range(1, 5), past, now) == (set(), {4}, set())


def test_only_a_redis_that_forgets_may_destroy() -> None:
    past, now = content(range(1, 5), commit(0, 2)), content([], committed=2)
    assert judged("wipe", range(1, 5), past, now) == (set(), set(), {3, 4})
    assert judged("clock_back", range(1, 5), past, now) == ({3, 4}, set(), set())


# --- moves and history


def acquired(member: str, fence: int, kind: str = "acquired") -> LockEvent:
    return LockEvent(
        entry_id=f"{fence}-0",
        seq=fence,
        kind=kind,
        partition=P,
        member_id=member,
        fence=fence,
        at_ms=fence,
    )


@pytest.mark.parametrize(
    ("members", "hurt", "moves"),
    [
        (["a-1", "a-1"], (), 0),
        (["b-1"], (), 1),
        (["b-1", "a-1"], (), 2),
        (["b-1"], ("a",), 0),
        (["b-1", "a-2"], ("a",), 0),
        (["b-1", "c-1"], ("a",), 1),
        (["ab-1"], ("b",), 1),
    ],
)
def test_move_between_two_who_were_not_hurt_has_no_cause(
    members: list[str], hurt: tuple[str, ...], moves: int
) -> None:
    events = [acquired(member, 8 + n) for n, member in enumerate(members)]
    twice = [*events, acquired("z-1", 3), *events]
    assert redis_judge.moves_without_cause(twice, {P: ("a-1", 7)}, hurt) == moves


OPEN = Tenure(partition=str(P), member="a", fence=8, is_open=True)
LOCKS = {P: ("a", 8)}


def test_history_of_all_that_happened_lacks_nothing() -> None:
    assert redis_judge.missing_in_history([acquired("a", 8)], [OPEN], LOCKS, []) == []


def test_grant_that_history_does_not_know_is_missing_unless_a_gap_is_shown() -> None:
    events = [acquired("b", 7), acquired("a", 8)]
    (missing,) = redis_judge.missing_in_history(events, [OPEN], LOCKS, [])
    assert "acquired b/7" in missing
    assert redis_judge.missing_in_history(events, [OPEN], LOCKS, [Gap(8, 1)]) == []


def test_gap_excuses_only_what_lies_in_it() -> None:
    """Fences are times too: 3 is in history and 6 ends the gap, which 4 and 5 lie in."""
    events = [acquired("b", 2), acquired("a", 3), acquired("b", 4), acquired("b", 4, "released")]
    events += [acquired("c", 5), acquired("a", 6), acquired("c", 7), acquired("a", 8)]
    closed = [replace(OPEN, fence=fence, is_open=False) for fence in (3, 6)]
    for lost in (None, 3):
        found = redis_judge.missing_in_history(events, [*closed, OPEN], LOCKS, [Gap(6, lost)])
        assert found == [f"{P} acquired b/2", f"{P} acquired c/7"]
    one = redis_judge.missing_in_history(events, [*closed, OPEN], LOCKS, [Gap(6, 1)])
    assert f"{P} acquired b/4" in one and f"{P} acquired c/5" not in one


def test_end_behind_a_gap_is_not_one_of_the_lost() -> None:
    events = [
        acquired("a", 3),
        acquired("b", 4),
        structs.replace(acquired("a", 3, "released"), at_ms=6),
    ]
    closed = replace(OPEN, fence=3, is_open=False)
    assert redis_judge.missing_in_history(events, [closed], {}, [Gap(6, 1)]) == []


def test_end_of_a_grant_that_lies_in_a_gap_is_excused() -> None:
    events = [
        acquired("b", 5),
        structs.replace(acquired("b", 5, "released"), at_ms=7),
        acquired("a", 8),
    ]
    events.insert(1, structs.replace(acquired("c", 6), partition=Partition("flights", 1)))
    other = Tenure(partition="flights:1", member="c", fence=6, is_open=False)
    assert redis_judge.missing_in_history(events, [other, OPEN], LOCKS, [Gap(6, 1)]) == []


def test_end_that_history_does_not_know_is_missing() -> None:
    events = [acquired("a", 8), acquired("a", 8, "expired")]
    assert len(redis_judge.missing_in_history(events, [OPEN], {}, [])) == 2


def test_gap_does_not_excuse_a_wrong_owner_now() -> None:
    missing = redis_judge.missing_in_history([], [OPEN], {P: ("b", 9)}, [Gap(9, None)])
    assert len(missing) == 2


# --- the verdict


def test_bound_has_a_lease_and_the_restore_more_where_redis_forgot() -> None:
    assert redis_judge.bound_of("redis_hung", TIMINGS, 500.4) == 28_000
    for name in redis_judge.LOSING:
        assert redis_judge.bound_of(name, TIMINGS, 500.4) == 38_500


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recovered_ms": None}, "recovered_ms None is not within 38000"),
        ({"recovered_ms": 38_001}, "recovered_ms 38001 is not within"),
        ({"lost": 1}, "lost is 1"),
        ({"doubled": 2}, "doubled is 2"),
        ({"destroyed": 2}, "destroyed 2 was reported, 3 were counted"),
        ({"destroyed": None}, "destroyed nothing was reported, 3 were counted"),
        ({"moves_without_cause": 1}, "moves is 1"),
        ({"agents_ended": 1}, "agents_ended is 1"),
        ({"history_complete": False}, "history is not complete"),
        ({"problems": ("it hurts",)}, "it hurts"),
        ({"error": "vacuous"}, "not judged: vacuous"),
    ],
)
def test_what_is_wrong_with_a_step_is_named(change: dict[str, object], said: str) -> None:
    assert redis_judge.faults_of(RIGHT) == []
    (wrong,) = redis_judge.faults_of(replace(RIGHT, **change))  # type: ignore[arg-type]
    assert wrong.startswith("wipe: ")
    assert said in wrong


def test_agents_may_end_only_with_the_up_that_started_them() -> None:
    ended = replace(RIGHT, name="up_killed", agents_ended=3)
    assert redis_judge.faults_of(ended) == []


def test_nothing_reported_is_right_where_nothing_was_destroyed() -> None:
    assert redis_judge.faults_of(replace(RIGHT, destroyed=None, destroyed_counted=0)) == []


def test_what_is_gone_is_what_audit_and_producers_know_of_each_partition() -> None:
    """Each knows a part: nothing is counted twice, and effects in a snapshot are not destroyed."""
    lines = (
        "9 acknowledged events of flights:0 are gone, ids above 1 up to 9\n"
        "4 acknowledged events of flights:1 are gone"
    )
    found = {
        "flights:0": {"offset": "7-0", "total": 6, "destroyed": 2},
        "flights:1": {"offset": "0-0", "total": 0, "destroyed": 3},
        "flights:2": {"offset": "0-0", "total": 0, "destroyed": 1},
    }
    said = [{"after": {"destroyed": 6, "partitions": found}}, {"after": None}]
    assert redis_judge.reported(said, lines) == 3 + 4 + 1
    assert redis_judge.reported(said, "") == 6
    assert redis_judge.reported([], lines) == 13
    unknown = [{"after": {"partitions": {"flights:0": {"total": 0, "destroyed": None}}}}]
    assert redis_judge.reported(unknown, lines) == 13
    assert redis_judge.reported([], "") is None


def test_exit_code_tells_not_held_from_not_judged() -> None:
    wrong, void = replace(RIGHT, lost=1), redis_judge.not_judged("wipe", "vacuous")
    assert redis_judge.exit_code([RIGHT]) == 0
    assert redis_judge.exit_code([RIGHT, void]) == 3
    assert redis_judge.exit_code([RIGHT], "the tree did not start") == 3
    assert redis_judge.exit_code([]) == 3
    assert redis_judge.exit_code([void, wrong]) == 1
    assert redis_judge.exit_code([redis_judge.broken("wipe", "struck", ["it fell"])]) == 1


def test_pages_that_are_slow_or_silent_are_named() -> None:
    answers = [Answer("/", 40, 200), Answer("/", 3_001, 200), Answer("/readyz", 20, 503)]
    assert judge(answers, 3_000) == (3_001, ["/ took 3001 ms"])
    assert judge([Answer("/", 1, None), Answer("/a", 1, 500)], 3_000) == (
        1,
        ["/ answered None", "/a answered 500"],
    )


@pytest.mark.parametrize(
    ("command", "known"),
    [
        (fault_check.Command(), fault_check.STEPS),
        (redis_check.Command(), redis_trees.STEPS),
        (scaling_check.Command(), scaling.STEPS),
    ],
)
def test_steps_of_every_check_are_chosen_by_name_and_run_in_their_own_order(
    command: BaseCommand, known: Collection[str]
) -> None:
    parser = command.create_parser("manage.py", "check")
    first, second, *_ = known
    assert parser.parse_args([]).steps == list(known)
    assert parser.parse_args(["--steps", f"{second}, {first},"]).steps == [first, second]
    with pytest.raises(CommandError, match=f"there is no step run: choose from {first}, "):
        parser.parse_args(["--steps", "run"])
    with pytest.raises(CommandError, match=f"choose from {first}, "):
        parser.parse_args(["--steps", ","])
