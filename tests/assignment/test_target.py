"""The next target: from what members report, hold and were given, to who gets what, and why."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.coordinator.planning import Nothing, Target, next_target, target_of
from assignment.coordinator.reading import (
    HERD,
    HERD_MS,
    HERD_SESSIONS,
    claims,
    owners_before,
)
from assignment.coordinator.record import Cause, Move
from assignment.errors import InvalidInput
from assignment.invariants import check
from assignment.metrics import Movement
from assignment.scripts.group_read import Gap, GroupRead
from assignment.scripts.rows import Applied
from assignment.types import Partition, Reason, TargetRow, UnableReason
from tests.builders import (
    NOW,
    SESSION_MS,
    STREAM,
    fence,
    grant,
    group,
    live,
    partition,
    partitions,
    settings,
)


def target(view: GroupRead) -> Target:
    found = next_target(view)
    assert isinstance(found, Target)
    return found


def active(view: GroupRead) -> dict[str, list[int]]:
    return {m: sorted(p.number for p in row.active) for m, row in target(view).rows.items()}


def test_nothing_is_due_when_nothing_changed() -> None:
    view = group(live("a", range(12)), group_epoch=7, target_epoch=7)
    assert next_target(view) == Nothing("nothing changed since epoch 7")


def test_nothing_is_due_while_a_report_is_awaited() -> None:
    view = group(live("a", range(12)), live("b", asked_at_ms=NOW, reported=False))
    assert next_target(view) == Nothing("waiting for reports of b")


def herd(count: int, *, joined_at_ms: int = NOW, due_since_ms: int = NOW - 1_000) -> GroupRead:
    names = [f"m{n:02}" for n in range(count)]
    view = group(live("a", range(12)), *map(live, names), due_since_ms=due_since_ms)
    rows = {name: replace(view.members[name], joined_at_ms=joined_at_ms) for name in names}
    return replace(view, members=dict(view.members) | rows)


def test_nothing_is_due_while_members_join_by_the_dozen() -> None:
    said = next_target(herd(HERD))
    assert said == Nothing(f"{HERD} members joined within a second: more are to come")
    assert active(herd(HERD - 1))
    assert active(herd(HERD, joined_at_ms=NOW - HERD_MS))


def test_members_that_come_for_ever_keep_the_others_waiting_for_a_while() -> None:
    since_ms = NOW - HERD_SESSIONS * SESSION_MS
    assert isinstance(next_target(herd(HERD, due_since_ms=since_ms + 1)), Nothing)
    assert active(herd(HERD, due_since_ms=since_ms))


@pytest.mark.parametrize(
    "meta",
    [{"away": (Gap(NOW - 13_000, NOW - 1_000),)}, {"tick_ms": NOW - 12_000}],
    ids=["noted by a tick", "before the first tick"],
)
def test_members_that_could_not_renew_while_redis_hung_are_awaited(meta: dict[str, Any]) -> None:
    hung = {"able": False, "unable": UnableReason.NO_RENEW}
    view = group(live("a", range(6), **hung), live("b", range(6, 12)), **meta)
    assert next_target(view) == Nothing("waiting for reports of a")
    assert isinstance(next_target(replace(view, beats={"a": NOW - 60_000})), Target)
    starting = live("a", range(6), able=False, unable=UnableReason.CONSUMER)
    assert isinstance(next_target(group(starting, live("b"), **meta)), Target)


def test_the_wait_of_a_rebalance_does_not_run_while_redis_is_away() -> None:
    away = (Gap(NOW - 13_000, NOW - 1_000),)
    hung = live("a", range(6), able=False, unable=UnableReason.NO_RENEW)
    due = {"away": away, "due_since_ms": NOW - 13_000 - SESSION_MS + 1_001}
    assert next_target(group(hung, **due)) == Nothing("waiting for reports of a")
    over = due | {"due_since_ms": NOW - 13_000 - SESSION_MS + 1_000}
    assert isinstance(next_target(group(hung, **over)), Target)


def test_one_that_alone_cannot_renew_is_not_awaited() -> None:
    cut_off = live("a", range(6), able=False, unable=UnableReason.NO_RENEW)
    assert active(group(cut_off, live("b", range(6, 12))))["b"] == list(range(12))


def test_the_first_member_gets_everything() -> None:
    view = group(live("a", in_target=False), settings=settings(partitions=2), target_epoch=0)
    found = target(view)
    assert found.rows == {"a": TargetRow(target_epoch=8, active=partitions(0, 1))}
    assert found.change.causes == (Cause(Reason.JOIN, "a"),)
    assert found.change.moves == (Move(partition(0), "", "a"), Move(partition(1), "", "a"))
    assert found.change.movement == Movement(counted=0, kept=0, kept_best=0)
    assert found.change.movement.stickiness is None


def test_a_joiner_takes_only_what_makes_it_even() -> None:
    view = group(live("a", range(6)), live("b", range(6, 12)), live("c", in_target=False))
    found = target(view)
    assert active(view) == {"a": [0, 1, 2, 3], "b": [6, 7, 8, 9], "c": [4, 5, 10, 11]}
    assert found.change.causes == (Cause(Reason.JOIN, "c"),)
    assert found.change.moves == tuple(
        Move(partition(n), giver, "c") for n, giver in ((4, "a"), (5, "a"), (10, "b"), (11, "b"))
    )
    assert found.change.movement == Movement(counted=12, kept=8, kept_best=8)
    assert found.change.movement.avoidable_moves == 0
    assert found.change.loads == {"a": 4, "b": 4, "c": 4}
    assert found.change.score == 100.0


def test_averagely_says_how_many_moves_it_could_have_spared() -> None:
    view = group(
        live("a", range(0, 12, 2)),
        live("b", range(1, 12, 2)),
        settings=settings(strategy="averagely"),
    )
    found = target(view)
    assert active(view) == {"a": list(range(6)), "b": list(range(6, 12))}
    assert found.change.movement == Movement(counted=12, kept=6, kept_best=12)
    assert found.change.movement.avoidable_moves == 6


def test_another_strategy_can_be_previewed_without_being_due() -> None:
    view = group(live("a", range(0, 12, 2)), live("b", range(1, 12, 2)), group_epoch=7)
    assert target_of(view, "averagely").change.movement.moves == 6
    assert target_of(view, "sticky").change.movement.moves == 0


def test_a_preview_has_the_parameters_given_else_the_groups_own() -> None:
    own = {"config_map": {"a": ["0-8"], "b": ["9-11"]}}
    view = group(
        live("a", range(6)),
        live("b", range(6, 12)),
        settings=settings(strategy="config", strategy_parameters=own),
        group_epoch=7,
    )
    assert target_of(view).change.movement.moves == 3
    assert target_of(view, "config").change.movement.moves == 3
    other = {"config_map": {"a": ["0-6"], "b": ["7-11"]}}
    assert target_of(view, "config", other).change.movement.moves == 1
    assert target_of(view, "sticky").change.movement.moves == 0
    with pytest.raises(InvalidInput, match="config_map is missing"):
        target_of(view, "config", {})


def test_a_map_that_names_a_member_who_is_not_there_is_refused() -> None:
    view = group(
        live("a", range(12)),
        settings=settings(
            strategy="config", strategy_parameters={"config_map": {"a": ["0-5"], "b": ["6-11"]}}
        ),
    )
    with pytest.raises(InvalidInput, match="member 'b' is not there"):
        next_target(view)


def test_measured_weights_are_the_events_applied() -> None:
    totals = {Partition(STREAM, n): Applied(100 if n else 1_100, NOW) for n in range(12)}
    measured = {"weights": "measured"}
    view = replace(
        group(
            live("a", range(6)),
            live("b", range(6, 12)),
            settings=settings(strategy="weighted_sticky", strategy_parameters=measured),
        ),
        applied=totals,
    )
    assert active(view) == {"a": [0], "b": list(range(1, 12))}
    assert target(view).change.movement.avoidable_moves is None, "nobody knows the least by weight"


def test_a_member_that_is_not_able_stays_with_nothing() -> None:
    view = group(live("a", range(6), able=False), live("b", range(6, 12)))
    assert active(view) == {"a": [], "b": list(range(12))}
    assert target(view).change.causes == (Cause(Reason.UNABLE, "a"),)
    assert target(view).change.unable == {"a": "consumer not ready"}


def test_able_again_counts_as_just_joined() -> None:
    view = group(live("a", able_at_ms=NOW), live("b", range(12)))
    assert active(view) == {"a": list(range(6, 12)), "b": list(range(6))}
    assert target(view).change.causes == (Cause(Reason.ABLE, "a"),)


def test_a_leaving_member_gets_nothing() -> None:
    view = group(live("a", range(6), leaving=True), live("b", range(6, 12)))
    assert active(view) == {"a": [], "b": list(range(12))}
    assert target(view).change.causes == (Cause(Reason.LEAVING, "a"),)


def test_without_an_able_member_everything_is_unowned() -> None:
    found = target(group(live("a", range(12), able=False)))
    assert found.rows == {"a": TargetRow(target_epoch=8)}
    assert found.change.balance_degree is None
    assert len(found.change.moves) == 12


def test_without_any_member_there_are_no_rows() -> None:
    assert target(group()).rows == {}


def test_a_dead_members_partitions_are_dealt_to_the_others() -> None:
    dead = {n: grant("dead", until_ms=NOW - 1, ended="expired") for n in range(8, 12)}
    view = group(live("a", range(4)), live("b", range(4, 8)), grants=dead)
    found = target(view)
    assert active(view) == {"a": [0, 1, 2, 3, 8, 10], "b": [4, 5, 6, 7, 9, 11]}
    assert found.change.causes == (Cause(Reason.LEAVE, "dead"),)
    assert found.change.moves[0] == Move(partition(8), "dead", "a")
    assert found.change.movement == Movement(counted=12, kept=8, kept_best=8)


def test_more_members_than_partitions_leave_the_extra_ones_idle() -> None:
    view = group(*(live(m) for m in "abc"), settings=settings(partitions=2))
    assert active(view) == {"a": [0], "b": [1], "c": []}
    assert target(view).change.score == 100.0


def test_added_partitions_go_to_the_least_loaded() -> None:
    view = group(
        live("a", (0, 1)), live("b", (2,)), settings=settings(partitions=4), target_at_ms=NOW
    )
    assert active(view) == {"a": [0, 1], "b": [2, 3]}
    assert target(view).change.causes == (Cause(Reason.PARTITIONS, "1 added"),)


def test_partitions_that_are_gone_are_given_to_nobody() -> None:
    view = group(live("a", (0, 1)), settings=settings(partitions=1))
    assert active(view) == {"a": [0]}
    assert target(view).change.causes == (Cause(Reason.PARTITIONS, "1 removed"),)


def test_a_person_asking_moves_nothing_in_a_settled_group() -> None:
    found = target(group(live("a", range(6)), live("b", range(6, 12))))
    assert found.change.moves == ()
    assert found.change.causes == (Cause(Reason.MANUAL, ""),)
    assert found.change.movement.stickiness == 1.0


# --- what counts as held --------------------------------------------------------------------------


def test_what_is_still_reported_counts_more_than_what_was_promised() -> None:
    """b was given 1 and waits; a has not let go of it yet."""
    view = group(live("a", (0, 1), target=(0,)), live("b", (2,), target=(1, 2)))
    assert claims(view, {}) == {
        "a": {partition(0): fence(1), partition(1): fence(1)},
        "b": {partition(2): fence(1)},
    }


def test_what_was_promised_counts_when_nobody_has_it() -> None:
    view = group(live("a", (0,)), live("b", (2,), target=(1, 2)))
    assert claims(view, {})["b"] == {partition(2): fence(1), partition(1): 0}


def test_what_a_member_that_is_not_able_reports_does_not_count() -> None:
    view = group(live("a", (0, 1), able=False), live("b", target=(1,)))
    assert claims(view, {"a": "consumer not ready"}) == {"b": {partition(1): 0}}


def test_locks_stand_in_for_a_missing_report() -> None:
    view = group(live("a", (0, 1), reported=False, target=()))
    assert claims(view, {}) == {"a": {partition(0): fence(1), partition(1): fence(1)}}


def test_a_lock_taken_since_outweighs_an_old_report() -> None:
    """a lost 1 in a pause and has not said so; b has it."""
    view = group(
        live("a", {0: 1, 1: 1}, locked={0: 1}, target=(0,)),
        live("b", {}, locked={1: 2}, target=(1,)),
        settings=settings(partitions=2),
    )
    assert active(view) == {"a": [0], "b": [1]}
    assert owners_before(view) == {partition(0): "a", partition(1): "b"}


def test_an_owner_gone_since_is_the_owner_before_only_where_nobody_claims() -> None:
    gone = {0: grant("gone", ended="expired"), 5: grant("gone", ended="expired")}
    view = group(live("a", target=(0,)), grants=gone)
    assert owners_before(view) == {partition(0): "a", partition(5): "gone"}


# --- properties -----------------------------------------------------------------------------------


@st.composite
def views(draw: st.DrawFn) -> GroupRead:
    """Any group whose locks and reports may come from a run: one lock each, reports may be old."""
    count, partition_count = draw(st.integers(0, 6)), draw(st.integers(1, 16))
    holders = draw(
        st.lists(st.integers(-1, count - 1), min_size=partition_count, max_size=partition_count)
    )
    given_to = draw(st.permutations(holders))
    members = []
    for index in range(count):
        held = {n: 5 for n, holder in enumerate(holders) if holder == index}
        stale = draw(st.sets(st.integers(0, partition_count - 1), max_size=2))
        members.append(
            live(
                f"m{index}",
                {n: 4 for n in stale} | held,
                locked=held,
                target=[n for n, holder in enumerate(given_to) if holder == index],
                able=draw(st.booleans()),
                leaving=draw(st.booleans()),
                reported=draw(st.booleans()),
            )
        )
    return group(
        *members,
        settings=settings(
            partitions=partition_count, strategy=draw(st.sampled_from(("sticky", "averagely")))
        ),
        target_at_ms=NOW,
    )


@over(views())
def test_every_target_covers_each_partition_once_with_able_members(view: GroupRead) -> None:
    found = target(view)
    able = {m for m, row in view.members.items() if row.able and not row.leaving}
    given_out = sorted(p for row in found.rows.values() for p in row.active)
    assert found.rows.keys() == view.members.keys()
    assert given_out == (list(partitions_of(view)) if able else [])
    assert all(m in able for m, row in found.rows.items() if row.active)
    assert max(found.change.loads.values(), default=0) - min(
        found.change.loads.values(), default=0
    ) in (0, 1)


@over(views())
def test_a_carried_out_target_is_a_fixed_point(view: GroupRead) -> None:
    found = target(view)
    settled = group(
        *(
            live(
                m,
                [p.number for p in found.rows[m].active],
                able=row.able,
                leaving=row.leaving,
            )
            for m, row in view.members.items()
        ),
        settings=view.meta.settings,
        group_epoch=9,
        target_epoch=8,
    )
    check(settled)
    next_rows = {m: row.active for m, row in target(settled).rows.items()}
    assert next_rows == {m: row.active for m, row in found.rows.items()}


@over(views(), st.randoms(use_true_random=False))
def test_the_order_of_reports_does_not_matter(view: GroupRead, random: Random) -> None:
    def mixed(values: dict) -> dict:
        return dict(random.sample(list(values.items()), len(values)))

    shuffled = replace(
        view,
        members=mixed(view.members),
        reports=mixed(view.reports),
        target=mixed(view.target),
        locks=mixed(view.locks),
        grants=mixed(view.grants),
    )
    assert next_target(shuffled) == next_target(view)


def partitions_of(view: GroupRead):
    assert view.meta.settings
    return view.meta.settings.all_partitions()


@pytest.mark.parametrize("strategy", ["sticky", "averagely"])
def test_two_coordinators_given_the_same_reports_agree(strategy: str) -> None:
    view = group(live("a", range(12)), live("b"), live("c"), settings=settings(strategy=strategy))
    assert next_target(view) == next_target(replace(view))


def test_a_report_under_anothers_fence_or_ahead_of_every_grant_is_no_claim() -> None:
    liar = live("b", {0: 1, 1: 9}, locked={}, target=())
    view = group(live("a", {0: 1, 1: 1}), liar)
    assert claims(view, {})["b"] == {}
    lost_writes = replace(view, run_id="another")
    assert claims(lost_writes, {})["b"] == {partition(1): fence(9)}
