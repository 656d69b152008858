"""Who owns what, balance and leaving (L1-L9, S4-S8), and the choices of the planner's docstring."""

from typing import Any

import pytest

from assignment.errors import InvalidInput
from assignment.planner import plan
from assignment.planner.values import Learner, LearnerSettings, MemberView
from tests.assignment.rounds import handovers, live, planned, view

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


def test_without_any_replica_the_least_loaded_gets_it() -> None:
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


def test_of_two_that_report_one_partition_its_ready_learner_has_just_taken_over() -> None:
    late, new = live("a", "1"), live("b", "12", ready="1")
    assert planned(late, new, partitions="12") == {"a": "r1 l1", "b": "a12"}


def test_a_ready_learner_ends_a_double_report() -> None:
    members = (live("a", "1"), live("b", "1"), live("c", ready="1"))
    assert planned(*members, partitions="1") == {"a": "r1", "b": "r1", "c": "a1"}


def test_what_a_member_owns_it_does_not_learn() -> None:
    assert planned(live("a", "1", learning="1"), live("b", "2"), partitions="12") == {
        "a": "a1",
        "b": "a2",
    }


def test_an_owner_that_says_it_is_a_ready_learner_is_no_reason_to_keep_it() -> None:
    members = (live("a", "1", ready="1"), live("b", "23", ready="1"))
    assert planned(*members, partitions="123")["b"] == "a123"


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
    assert handovers(plan(uneven)) == [("4", "b", "a")]


def test_where_the_choice_is_free_the_smaller_capacity_is_not_left_out() -> None:
    """Four on one member is as good as three, as far as the fuller one of two is concerned."""
    small = [live(m) for m in "bcde"]
    assert planned(live("a", capacity=4.0), *small, partitions="1234")["a"] == "a123"


def test_capacities_may_differ_by_any_factor() -> None:
    members = (live("a", "1", capacity=1e-300), live("b", capacity=1e300))
    assert planned(*members, partitions="12", standby_replicas=1) == {
        "a": "a1 s2",
        "b": "a2 l1",
    }


def test_tolerance_lets_a_member_have_that_share_more() -> None:
    members = (live("a", "1234567"), live("b", "89abc"))
    assert planned(*members, partitions="123456789abc")["b"] == "a89abc l1"
    tolerant = plan(view(*members, partitions="123456789abc", tolerance=0.2))
    assert not handovers(tolerant)


def test_within_a_tolerance_what_is_given_goes_to_the_lightest() -> None:
    members = (live("a", "1234567"), live("b", "89"), live("c"))
    tolerant = plan(view(*members, partitions="123456789", tolerance=0.7))
    assert handovers(tolerant) == [("1", "a", "c"), ("2", "a", "c")]


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
        (lambda: LearnerSettings(tolerance=float("nan")), "tolerance nan"),
    ],
)
def test_bad_input_is_named(make: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        make()
