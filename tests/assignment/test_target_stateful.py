"""A stateful group's next target: what was read becomes the planner's view, and its round a target.

The planner's own rules are tested with it; here is what reports, locks and the stored target mean.
"""

from dataclasses import replace

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.coordinator.learners import are_standbys_due, view_of
from assignment.coordinator.planning import PLANNER, Target, next_target, target_of
from assignment.coordinator.reading import unable_members
from assignment.coordinator.record import Cause, Move
from assignment.invariants import check
from assignment.planner.values import GroupView, Learner, MemberView
from assignment.scripts.group_read import GroupRead
from assignment.types import Drain, Partition, Reason, ReplicaReport
from tests.builders import (
    NOW,
    Live,
    grant,
    group,
    learner,
    live,
    partition,
    partitions,
    settings,
    standby,
)

FIVE = settings(partitions=5, stateful=True)


def stateful(*members: Live, **options: object) -> GroupRead:
    chosen = {
        name: options.pop(name) for name in ("standby_replicas", "learners_max") & options.keys()
    }
    return group(*members, settings=replace(FIVE, **chosen), **options)


def planned(view: GroupRead) -> GroupView[Partition]:
    return view_of(view, unable_members(view))


def member(view: GroupRead, member_id: str) -> MemberView[Partition]:
    return next(m for m in planned(view).members if m.member_id == member_id)


def target(view: GroupRead) -> Target:
    found = next_target(view)
    assert isinstance(found, Target)
    return found


def roles(view: GroupRead, role: str) -> dict[str, list[int]]:
    rows = target(view).rows.items()
    return {m: sorted(p.number for p in getattr(row, role)) for m, row in rows}


STABLE = (live("S1", (0, 1)), live("S2", (2, 3)), live("S3", (4,)))


# --- the view -------------------------------------------------------------------------------------


def test_a_member_is_what_its_row_and_report_say() -> None:
    view = stateful(
        live(
            "S1",
            (0,),
            zone="west",
            capacity=2.0,
            standby=(1,),
            learning=(2, 3),
            replicas={1: standby(7), 2: learner(3), 3: learner(0)},
            ready=(3,),
            joined_at_ms=5,
            able_at_ms=9,
        )
    )
    assert member(view, "S1") == MemberView(
        member_id="S1",
        joined_at_ms=9,
        zone="west",
        capacity=2.0,
        owned=partitions(0),
        standby={partition(1): 7},
        learning={partition(2): Learner(3), partition(3): Learner(0, True)},
    )


@pytest.mark.parametrize(
    ("fields", "leaving", "forced"),
    [
        ({}, False, False),
        ({"drain": Drain.LEAVING}, True, False),
        ({"drain": Drain.FORCED}, True, True),
        ({"leaving": True}, True, True),
    ],
    ids=["stays", "told", "time is up", "said so itself"],
)
def test_who_leaves_and_who_is_forced(
    fields: dict[str, object], leaving: bool, forced: bool
) -> None:
    found = member(stateful(live("S1", (0,), **fields)), "S1")
    assert (found.leaving, found.forced) == (leaving, forced)


def test_a_learner_that_nobody_reports_yet_is_one() -> None:
    assert member(stateful(live("S4", learning=(1,))), "S4").learning == {partition(1): Learner()}


def test_a_standby_becomes_a_learner_with_its_lag() -> None:
    view = stateful(live("S4", learning=(1,), replicas={1: standby(12)}))
    assert member(view, "S4").learning == {partition(1): Learner(12)}


def test_a_learner_that_was_dropped_since_is_only_a_replica() -> None:
    """Its flag is of an older target: nothing is promoted by it."""
    view = stateful(live("S4", replicas={1: learner(0, ready=True)}, ready=(1,)))
    assert (member(view, "S4").learning, member(view, "S4").standby) == ({}, {partition(1): 0})


def test_a_ready_learner_is_one_until_it_has_acquired() -> None:
    """The round before made it owner; the old owner has not released yet."""
    old = live("S1", (0, 1), target=(1,))
    new = live("S4", target=(0,), replicas={0: learner(0, ready=True)}, ready=(0,))
    view = stateful(old, new, *STABLE[1:])
    assert roles(view, "active")["S4"] == [0]
    assert roles(view, "active")["S1"] == [1]


def test_without_a_stored_target_reports_say_it_all() -> None:
    view = stateful(
        live("S4", in_target=False, replicas={0: learner(5), 1: standby(6)}), target_epoch=0
    )
    found = member(view, "S4")
    assert (found.learning, found.standby) == ({partition(0): Learner(5)}, {partition(1): 6})


def test_the_higher_fence_is_the_only_owner() -> None:
    """S1's report is older than S2's lock."""
    view = stateful(live("S1", {0: 1}, locked={}, target=()), live("S2", {0: 2}))
    assert (member(view, "S1").owned, member(view, "S2").owned) == (frozenset(), partitions(0))


def test_what_a_forced_member_still_has_waits_for_its_new_owner() -> None:
    """Later rounds do not give it to a third, though others have less."""
    forced = live("S2", (2, 3), target=(), drain=Drain.FORCED)
    view = stateful(live("S1", (0, 1), target=(0, 1, 2, 3)), forced, live("S3", (4,)), live("S4"))
    assert {2, 3} <= set(roles(view, "active")["S1"])


def test_a_capacity_that_cannot_be_is_the_usual_one() -> None:
    for capacity in (0.0, -1.0, float("inf"), float("nan")):
        assert member(stateful(live("S1", (0,), capacity=capacity)), "S1").capacity == 1.0


# --- the target -----------------------------------------------------------------------------------


def test_a_joiner_learns_first() -> None:
    """T1, the first round."""
    view = stateful(*STABLE, live("S4", in_target=False))
    found = target(view)
    assert roles(view, "active") == {"S1": [0, 1], "S2": [2, 3], "S3": [4], "S4": []}
    assert roles(view, "learning")["S4"] == [0]
    change = found.change
    assert (change.strategy, change.moves, change.waiting) == (PLANNER, (), 0)
    assert change.learning == (Move(partition(0), "S1", "S4"),)
    assert change.causes == (Cause(Reason.JOIN, "S4"),)
    assert change.movement.stickiness == change.movement.stickiness_best == 1.0


def test_a_ready_learner_takes_over_and_that_is_the_cause() -> None:
    joined = live("S4", learning=(0,), replicas={0: learner(0, ready=True)}, ready=(0,))
    view = stateful(*STABLE, joined)
    found = target(view)
    assert roles(view, "active") == {"S1": [1], "S2": [2, 3], "S3": [4], "S4": [0]}
    assert found.change.moves == (Move(partition(0), "S1", "S4"),)
    assert found.change.causes == (Cause(Reason.READY, "S4"),)
    assert found.change.learning == ()


def test_one_told_to_leave_keeps_what_others_learn() -> None:
    """T3, the first round."""
    view = stateful(STABLE[0], replace(STABLE[1], drain=Drain.LEAVING), STABLE[2])
    found = target(view)
    assert roles(view, "active") == {"S1": [0, 1], "S2": [2, 3], "S3": [4]}
    assert sorted(n for own in roles(view, "learning").values() for n in own) == [2, 3]
    assert roles(view, "learning")["S2"] == []
    assert found.change.causes == (Cause(Reason.SCALE_DOWN, "S2"),)
    assert found.change.loads == {"S1": 2, "S3": 1}, "balance is that of those who stay"


def test_what_has_no_live_owner_goes_at_once() -> None:
    """T4: to its learner though it is not ready, the rest to the least loaded."""
    gone = {n: grant("S1", ended="expired") for n in (0, 1)}
    view = stateful(*STABLE[1:], live("S4", learning=(0,), replicas={0: learner(9)}), grants=gone)
    assert roles(view, "active") == {"S2": [2, 3], "S3": [1, 4], "S4": [0]}


def test_standbys_that_came_are_due_when_all_of_them_have_caught_up() -> None:
    def view(coming: ReplicaReport, **options: object) -> GroupRead:
        return stateful(
            live("S1", (0, 1), standby=(2,), replicas={2: standby(0, ready=True)}),
            live("S2", (2, 3), standby=(0, 1, 4), replicas=dict.fromkeys((0, 1, 4), there)),
            live("S3", (4,), standby=(1, 3), replicas={1: coming, 3: there}),
            standby_replicas=1,
            **options,
        )

    there = standby(0, ready=True)
    assert not are_standbys_due(view(standby(0)))
    assert not are_standbys_due(view(standby(-1)))
    assert are_standbys_due(view(there))
    assert not are_standbys_due(view(standby(3, why="its disk is full"))), "a later cause"
    found = target(view(there))
    assert [m for m, row in found.rows.items() if partition(1) in row.standby] == ["S3"]
    assert found.change.missing_standbys == 0
    assert target(view(standby(0))).change.missing_standbys == 0, "one that comes is one too many"


def test_missing_standbys_are_counted() -> None:
    view = stateful(*STABLE, standby_replicas=3)
    found = target(view).change
    assert (found.standbys, found.missing_standbys) == (10, 5)


def test_what_learners_max_holds_back_is_counted() -> None:
    view = stateful(live("S1", range(5)), live("S2"), learners_max=1)
    found = target(view).change
    assert (len(found.learning), found.waiting) == (1, 1)


def test_a_strategy_has_no_say() -> None:
    view = stateful(*STABLE, live("S4"))
    assert target_of(view, "averagely") == target_of(view, "sticky")


def test_the_settings_of_a_stateless_group_change_nothing() -> None:
    members = (*STABLE, live("S4", learning=(0,), replicas={0: learner(0)}))
    plain = replace(FIVE, stateful=False)
    tuned = replace(plain, standby_replicas=2, learners_max=1, acceptable_lag_records=5)
    assert (
        target(group(*members, settings=tuned)).rows == target(group(*members, settings=plain)).rows
    )


# --- properties -----------------------------------------------------------------------------------


@st.composite
def views(draw: st.DrawFn) -> GroupRead:
    """Any stateful group: what is held, promised and replicated need not agree."""
    count, partition_count = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    holders = draw(
        st.lists(st.integers(-1, count - 1), min_size=partition_count, max_size=partition_count)
    )
    given_to = draw(st.permutations(holders))
    numbers = st.integers(0, partition_count - 1)
    members = []
    for index in range(count):
        held = {n: 5 for n, holder in enumerate(holders) if holder == index}
        promised = [n for n, holder in enumerate(given_to) if holder == index]
        replicated = {n for n in draw(st.sets(numbers, max_size=4)) if n not in promised}
        learned = {n for n in replicated if draw(st.booleans())}
        replicas = {n: learner(draw(st.integers(-1, 9))) for n in replicated if draw(st.booleans())}
        members.append(
            live(
                f"m{index}",
                held,
                target=promised,
                learning=learned,
                standby=replicated - learned,
                replicas=replicas,
                ready={n for n in learned if draw(st.booleans())},
                able=draw(st.booleans()),
                drain=draw(st.sampled_from(Drain)),
                reported=draw(st.booleans()),
            )
        )
    chosen = settings(
        partitions=partition_count,
        stateful=True,
        standby_replicas=draw(st.integers(0, 2)),
        learners_max=draw(st.integers(0, 2)),
    )
    return group(*members, settings=chosen, target_at_ms=NOW)


@over(views())
def test_every_target_is_whole(view: GroupRead) -> None:
    found = target(view)
    active = sorted(p for row in found.rows.values() for p in row.active)
    able = {m for m, row in view.members.items() if row.able}
    assert found.rows.keys() == view.members.keys()
    assert len(active) == len(set(active))
    assert all(m in able for m, row in found.rows.items() if row.active)
    if any(row.able and not row.drain for row in view.members.values()):
        assert len(active) == view.meta.settings.partitions
    for row in found.rows.values():
        assert not (row.active & row.learning | row.active & row.standby)
        assert not row.learning & row.standby
    learned = [p for row in found.rows.values() for p in row.learning]
    assert len(learned) == len(set(learned)), "one learner each"


@over(views())
def test_a_live_owner_loses_nothing_but_to_a_ready_learner(view: GroupRead) -> None:
    """L1: locks say who owns; of members that are able and have time."""
    found = target(view)
    for p, lock in view.locks.items():
        row = view.members[lock.member_id]
        if not row.able or row.drain is Drain.FORCED:
            continue
        owner = next(m for m, r in found.rows.items() if p in r.active)
        assert owner == lock.member_id or p in view.members[owner].ready


@over(views())
def test_all_ready_again_and_again_ends_in_balance(view: GroupRead) -> None:
    """Each round is carried out, and every learner becomes ready."""
    for _ in range(4 + view.meta.settings.partitions):
        found = target(view)
        view = carried_out(view, found)
        check(view)
    settled = target(view)
    assert settled.change.learning == settled.change.moves == ()
    assert (settled.change.max_minus_min or 0) <= 1
    loads = {m: len(row.active) for m, row in settled.rows.items()}
    staying = {m for m, row in view.members.items() if row.able and not row.drain}
    assert not staying or all(not n for m, n in loads.items() if m not in staying)


def carried_out(view: GroupRead, found: Target) -> GroupRead:
    members = []
    for m, row in view.members.items():
        given = found.rows[m]
        learned = [p.number for p in given.learning]
        kept = [p.number for p in given.standby]
        members.append(
            live(
                m,
                [p.number for p in given.active],
                learning=learned,
                standby=kept,
                replicas=dict.fromkeys(learned, learner(0)) | dict.fromkeys(kept, standby(0)),
                ready=learned,
                able=row.able,
                drain=row.drain,
            )
        )
    return group(*members, settings=view.meta.settings, target_at_ms=NOW)
