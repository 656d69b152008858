"""L1 to L14 and S4 to S8, one by one, and the choices that the planner's docstring makes."""

from typing import Any

import pytest

from assignment.errors import InvalidInput
from assignment.planner import GroupView as View
from assignment.planner import (
    Handover,
    Learner,
    LearnerSettings,
    MemberView,
    caught_up,
    plan,
    ready_flags,
    target_rows,
)
from assignment.types import Partition, TargetRow
from tests.assignment.rounds import live, planned, view
from tests.builders import partitions

# --- who owns -------------------------------------------------------------------------------------


def test_an_unready_learner_leaves_the_partition_with_its_owner() -> None:
    assert planned(live("a", "12"), live("b", learning="1"), partitions="12") == {
        "a": "a12",
        "b": "l1",
    }


def test_a_ready_learner_goes_before_the_owner() -> None:
    assert planned(live("a", "12"), live("b", ready="1"), partitions="12") == {
        "a": "a2 r1",
        "b": "a1",
    }


def test_any_round_promotes_every_ready_learner_even_one_that_balance_does_not_need() -> None:
    assert planned(live("a", "1"), live("b", "2", ready="1"), partitions="12")["b"] == "a12"


def test_of_two_ready_learners_the_one_with_less_becomes_owner() -> None:
    assert planned(
        live("a", "12"), live("b", "3", ready="1"), live("c", ready="1"), partitions="123"
    ) == {
        "a": "a2 r1",
        "b": "a3",
        "c": "a1",
    }


def test_without_a_live_owner_the_learner_goes_before_the_standby() -> None:
    standby = live("a", standby={"1": 0})
    assert planned(standby, live("b", learning="1"), live("c"), partitions="1")["b"] == "a1"


def test_without_owner_and_learner_the_standby_with_the_least_lag_is_next() -> None:
    members = (live("a"), live("b", standby={"1": None}), live("c", standby={"1": 7}))
    assert planned(*members, partitions="1")["c"] == "a1"


def test_of_standbys_with_equal_lag_the_least_loaded_then_the_smallest_id() -> None:
    fuller = live("a", "2", standby={"1": 3})
    members = (fuller, live("b", standby={"1": 3}), live("c", standby={"1": 3}))
    assert planned(*members, partitions="12")["b"] == "a1"


def test_without_any_copy_the_least_loaded_gets_it() -> None:
    assert planned(live("a", "12"), live("b", "3"), live("c", "4"), partitions="12345") == {
        "a": "a12",
        "b": "a35",
        "c": "a4",
    }


@pytest.mark.parametrize("fields", [{"able": False}, {"able": False, "leaving": True}])
def test_a_member_that_is_not_able_has_nothing_and_counts_as_no_owner(fields: Any) -> None:
    out = live("a", "1", ready="2", standby={"2": 0}, **fields)
    assignment = plan(view(out, live("b", "2"), partitions="12"))
    assert assignment.members["a"].revoked == ()
    assert assignment.members["b"].assigned == ("1", "2")
    assert assignment.moves == 0


def test_a_forced_member_goes_at_once_though_nobody_told_it_to_leave() -> None:
    assert planned(live("a", "1", forced=True), live("b", "2"), partitions="12") == {
        "a": "r1",
        "b": "a12",
    }


def test_two_that_report_one_partition_one_keeps_it_and_the_other_gives_it_up() -> None:
    assignment = plan(view(live("a", "12"), live("b", "1"), live("c", "3"), partitions="123"))
    assert assignment.members["a"].revoked == ("1",)
    assert assignment.members["b"].assigned == ("1",)
    assert assignment.moves == 0


def test_of_two_that_report_one_partition_the_one_that_stays_keeps_it() -> None:
    leaving = live("a", "1", leaving=True)
    assert planned(leaving, live("b", "12"), partitions="12") == {"a": "r1", "b": "a12"}


def test_a_ready_learner_ends_a_double_report() -> None:
    members = (live("a", "1"), live("b", "1"), live("c", ready="1"))
    assert planned(*members, partitions="1") == {"a": "r1", "b": "r1", "c": "a1"}


def test_what_a_member_owns_it_does_not_learn() -> None:
    assert planned(live("a", "1", learning="1"), live("b", "2"), partitions="12") == {
        "a": "a1",
        "b": "a2",
    }


def test_what_does_not_exist_is_taken_back_and_not_learned() -> None:
    known = plan(view(live("a", "1x", ready="y", standby={"z": 1}), partitions="1"))
    assert known.members["a"].assigned == ("1",)
    assert known.members["a"].revoked == ("x",)
    assert known.moves == 0


def test_nobody_there_leaves_everything_unowned() -> None:
    assignment = plan(view(live("a", "1", able=False), partitions="12"))
    assert assignment.unowned == ("1", "2")
    assert plan(view(partitions="1")).members == {}


# --- balance --------------------------------------------------------------------------------------


def test_balanced_tells_of_what_is_assigned_now() -> None:
    assert not plan(view(live("a", "123"), live("b", "4"), partitions="1234")).balanced
    assert plan(view(live("a", "123"), live("b", "45"))).balanced


def test_balance_is_weighed_by_capacity() -> None:
    strong = live("a", capacity=2.0)
    assert planned(strong, live("b"), partitions="123456") == {"a": "a1245", "b": "a36"}
    uneven = view(live("a", "123", capacity=2.0), live("b", "456"), partitions="123456")
    assert not plan(uneven).balanced
    assert plan(uneven).handovers == (Handover("4", "b", "a"),)


def test_tolerance_lets_a_member_have_that_share_more() -> None:
    members = (live("a", "1234567"), live("b", "89abc"))
    assert planned(*members, partitions="123456789abc")["b"] == "a89abc l1"
    tolerant = plan(view(*members, partitions="123456789abc", tolerance=0.2))
    assert not tolerant.handovers


def test_within_a_tolerance_what_is_given_goes_to_the_lightest() -> None:
    members = (live("a", "1234567"), live("b", "89"), live("c"))
    tolerant = plan(view(*members, partitions="123456789", tolerance=0.7))
    assert [(h.partition, h.learner) for h in tolerant.handovers] == [("1", "c"), ("2", "c")]


def test_a_stateless_group_moves_at_once() -> None:
    assert planned(live("a", "1234"), live("b"), partitions="1234", stateful=False) == {
        "a": "a34 r12",
        "b": "a12",
    }


def test_a_stateless_group_has_neither_learners_nor_standbys() -> None:
    members = (live("a", "1", leaving=True), live("b", "2"), live("c", ready="2", standby={"1": 0}))
    assignment = plan(view(*members, partitions="12", stateful=False, standby_replicas=1))
    assert assignment.members["b"].assigned == ("2",)
    assert assignment.members["c"].assigned == ("1",)
    assert assignment.missing_standbys == {}


# --- learners -------------------------------------------------------------------------------------


def test_a_learner_that_is_still_useful_stays_where_it_is() -> None:
    """A free choice would have given 1."""
    assert planned(live("a", "1234"), live("b", learning="34"), partitions="1234")["b"] == "l34"


def test_a_learner_that_balance_needs_no_more_is_dropped() -> None:
    """The cancelled scale-down, S7: its flag is withdrawn."""
    members = (live("a", "12", learning="3"), live("b", "34"), live("c", "5", learning="4"))
    assert planned(*members) == {"a": "a12", "b": "a34", "c": "a5"}


def test_of_learners_for_too_many_places_the_nearest_to_ready_stay() -> None:
    near = {"1": Learner(8), "2": Learner(1), "3": Learner(None)}
    newcomer = MemberView[str](member_id="b", learning=near)
    assert planned(live("a", "123456"), newcomer, live("c"), partitions="123456") == {
        "a": "a123456",
        "b": "l12",
        "c": "l34",
    }


def test_a_standby_becomes_the_learner_before_others() -> None:
    newcomer = live("b", standby={"3": 5})
    assert planned(live("a", "123"), newcomer, partitions="123")["b"] == "l3"


def test_standbys_decide_who_has_one_more_where_that_costs_no_move() -> None:
    leaving = live("c", "3", leaving=True)
    near = live("b", "2", standby={"3": 0})
    assert planned(live("a", "1"), near, leaving, partitions="123")["b"] == "a2 l3"


def test_a_learner_never_is_on_a_leaving_member() -> None:
    leaving = live("b", "3", ready="1", standby={"2": 0}, leaving=True)
    assert planned(live("a", "12"), leaving, live("c"), partitions="123") == {
        "a": "a12",
        "b": "a3",
        "c": "l3",
    }


def test_a_dead_learners_place_is_taken_by_another_member() -> None:
    assert planned(live("a", "12"), live("c"), partitions="12") == {"a": "a12", "c": "l1"}


def test_learners_max_holds_the_others_back() -> None:
    assignment = plan(
        view(live("a", "1234"), live("b"), live("c"), partitions="1234", learners_max=1)
    )
    assert assignment.handovers == (Handover("1", "a", "b"),)
    assert assignment.waiting == 1


def test_under_learners_max_leaving_members_go_first() -> None:
    members = (live("a", "1234"), live("b", "56", leaving=True), live("c"))
    two = plan(view(*members, partitions="123456", learners_max=2)).handovers
    assert two == (Handover("5", "b", "c"), Handover("6", "b", "c"))


def test_under_learners_max_the_least_loaded_takers_go_first() -> None:
    """T3, whose learners without a limit are 3 on S1 and 4 on S3."""
    members = (live("S1", "12"), live("S2", "34", leaving=True), live("S3", "5"))
    assert planned(*members, learners_max=1) == {"S1": "a12", "S2": "a34", "S3": "a5 l4"}


def test_a_lowered_learners_max_keeps_the_nearest_to_ready() -> None:
    newcomer = MemberView[str](member_id="b", learning={"1": Learner(8), "2": Learner(1)})
    lowered = plan(view(live("a", "1234"), newcomer, partitions="1234", learners_max=1))
    assert lowered.members["b"].learning == ("2",)


# --- leaving --------------------------------------------------------------------------------------


def test_a_leaving_member_keeps_what_nobody_can_take() -> None:
    assert planned(live("a", "12", leaving=True), partitions="12") == {"a": "a12"}


def test_a_leaving_member_gets_nothing_new_even_if_nobody_else_is_there() -> None:
    assignment = plan(view(live("a", "1", leaving=True, standby={"2": 0}), partitions="12"))
    assert assignment.members["a"].assigned == ("1",)
    assert assignment.unowned == ("2",)


def test_all_forced_leave_everything_unowned() -> None:
    assert planned(live("a", "1", forced=True), live("b", "2", forced=True), partitions="12") == {
        "a": "r1",
        "b": "r2",
    }


def test_a_newcomer_takes_a_leavers_place_and_the_others_keep_theirs() -> None:
    """The hot swap, S8."""
    members = (live("a", "12"), live("b", "34", leaving=True), live("c", "56"), live("d"))
    assert planned(*members, partitions="123456") == {
        "a": "a12",
        "b": "a34",
        "c": "a56",
        "d": "l34",
    }


# --- standbys -------------------------------------------------------------------------------------


def test_after_a_handover_the_old_owner_is_the_standby() -> None:
    members = (live("a", "12"), live("b", ready="1", standby={"2": 0}), live("c", standby={"1": 0}))
    assert planned(*members, partitions="12", standby_replicas=1)["a"] == "a2 r1 s1"


def test_a_standby_stays_where_it_is() -> None:
    members = (live("a", "1"), live("b", "2"), live("c", "3", standby={"1": 4, "2": 4}))
    assert planned(*members, partitions="123", standby_replicas=1) == {
        "a": "a1 s3",
        "b": "a2",
        "c": "a3 s12",
    }


def test_standbys_are_in_other_zones_first() -> None:
    members = (
        live("a", "1", zone="x"),
        live("b", zone="x", standby={"1": 0}),
        live("c", zone="y"),
        live("d", zone="y"),
        live("e", zone="z"),
    )
    one, two, four = (
        plan(view(*members, partitions="1", standby_replicas=n)).members for n in (1, 2, 4)
    )
    assert [m for m, part in one.items() if part.standby] == ["c"]
    assert [m for m, part in two.items() if part.standby] == ["c", "e"]
    assert [m for m, part in four.items() if part.standby] == ["b", "c", "d", "e"]


def test_new_standbys_go_to_the_least_loaded() -> None:
    members = (live("a", "123"), live("b", "456"), live("c", "78"), live("d"))
    shared = plan(view(*members, partitions="12345678", standby_replicas=1))
    roles = {
        m: len(part.assigned) + len(part.learning) + len(part.standby)
        for m, part in shared.members.items()
    }
    assert max(roles.values()) - min(roles.values()) <= 1


def test_too_few_members_for_the_standbys_are_shown_and_no_error() -> None:
    lonely = plan(
        view(live("a", "12"), live("b", leaving=True), partitions="12", standby_replicas=2)
    )
    assert lonely.missing_standbys == {"1": 2, "2": 2}


def test_a_partition_in_handover_has_its_standbys_beside_the_learner() -> None:
    members = (live("a", "12"), live("b", learning="1"), live("c", standby={"1": 0, "2": 0}))
    handed = plan(view(*members, partitions="12", standby_replicas=1)).members
    assert handed["c"].learning == ()
    assert handed["b"].learning == ("1",)
    assert handed["c"].standby == ("1", "2")


# --- readiness, and what is stored ----------------------------------------------------------------


def test_a_learner_is_caught_up_once_it_has_reached_the_acceptable_lag() -> None:
    exact, near = LearnerSettings(), LearnerSettings(acceptable_lag_records=10)
    assert not caught_up(1, before=False, settings=exact)
    assert caught_up(0, before=False, settings=exact)
    assert caught_up(10, before=False, settings=near)
    assert caught_up(10_000, before=True, settings=near)
    assert not caught_up(None, before=False, settings=near)


def test_stable_sets_all_flags_together() -> None:
    stable = LearnerSettings(learn_partial_rebalance=False)
    assert ready_flags({"1": True, "2": False}, stable) == {"1": False, "2": False}
    assert ready_flags({"1": True, "2": True}, stable) == {"1": True, "2": True}
    assert ready_flags({}, stable) == {}
    assert ready_flags({"1": True, "2": False}, LearnerSettings()) == {"1": True, "2": False}


def test_the_target_has_a_row_for_every_member() -> None:
    members = (
        MemberView(member_id="a", owned=partitions(0, 1)),
        MemberView[Partition](member_id="b"),
        MemberView[Partition](member_id="c", able=False),
    )
    stored = plan(
        View(
            partitions=partitions(0, 1),
            members=members,
            settings=LearnerSettings(standby_replicas=1),
        )
    )
    assert target_rows(stored, 7) == {
        "a": TargetRow(target_epoch=7, active=partitions(0, 1)),
        "b": TargetRow(target_epoch=7, standby=partitions(1), learning=partitions(0)),
        "c": TargetRow(target_epoch=7),
    }


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: view(live("a"), live("b"), live("a")), "member id 'a' is there twice"),
        (lambda: view(partitions="121"), "partition '1' is there twice"),
        (lambda: live(""), "a member id is empty"),
        (lambda: live("a", capacity=0.0), "capacity 0.0 of 'a'"),
        (lambda: live("a", capacity=float("nan")), "capacity nan of 'a'"),
        (lambda: live("a", standby={"1": -2}), "lag -2 of 1 on 'a'"),
        (lambda: MemberView(member_id="a", learning={"1": Learner(-1)}), "lag -1 of 1 on 'a'"),
        (lambda: LearnerSettings(learners_max=-1), "learners_max -1"),
        (lambda: LearnerSettings(tolerance=float("inf")), "tolerance inf"),
    ],
)
def test_bad_input_is_named(make: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        make()
