"""Learners and standbys (L3, L7, L10-L14), readiness, and what is stored of a round."""

from dataclasses import replace

import pytest

from assignment.planner import plan, target_rows
from assignment.planner.values import GroupView as View
from assignment.planner.values import Learner, LearnerSettings, MemberView
from assignment.types import Partition, TargetRow
from tests.assignment.rounds import handovers, live, planned, view
from tests.builders import partitions

# --- learners -------------------------------------------------------------------------------------


def test_a_learner_that_is_still_useful_stays_where_it_is() -> None:
    """A free choice would have given 1."""
    assert planned(live("a", "1234"), live("b", learning="34"), partitions="1234")["b"] == "l34"


def test_a_learner_that_balance_needs_no_more_is_dropped() -> None:
    """The cancelled scale-down, S7: its flag is withdrawn."""
    members = (live("a", "12", learning="3"), live("b", "34"), live("c", "5", learning="4"))
    assert planned(*members) == {"a": "a12", "b": "a34", "c": "a5"}


def test_the_giver_whose_partition_is_being_learned_goes_on_giving() -> None:
    """S4 of T1 has died; a free choice would let S1 give."""
    members = (live("S1", "12"), live("S2", "34"), live("S3", "5"), live("S5", learning="3"))
    assert planned(*members) == {"S1": "a12", "S2": "a34", "S3": "a5", "S5": "l3"}


def test_the_taker_with_more_learners_gets_more_where_that_costs_no_move() -> None:
    members = (live("a", "12345"), live("b"), live("c", learning="12"))
    assert planned(*members) == {"a": "a12345", "b": "l3", "c": "l12"}


def test_learners_decide_before_standbys_who_has_one_more() -> None:
    members = (live("a", "12345"), live("b", standby={"1": 0, "2": 0}), live("c", learning="34"))
    assert planned(*members) == {"a": "a12345", "b": "l1", "c": "l34"}


def test_a_partition_with_one_standby_goes_there_before_one_with_two() -> None:
    near = live("b", standby={"1": 0, "2": 0})
    members = (live("a", "12", leaving=True), near, live("c", standby={"1": 5}))
    assert planned(*members, partitions="12") == {"a": "a12", "b": "l2", "c": "l1"}


def test_of_two_standbys_the_one_with_the_least_lag_becomes_the_learner() -> None:
    members = (
        live("a", "12", leaving=True),
        live("b", standby={"1": 9}),
        live("c", standby={"1": 0}),
    )
    assert planned(*members, partitions="12") == {"a": "a12", "b": "l2", "c": "l1"}


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
    assert handovers(assignment) == [("1", "a", "b")]
    assert assignment.waiting == 1


def test_under_learners_max_leaving_members_go_first() -> None:
    members = (live("a", "23456"), live("b", "1", leaving=True), live("c", "78"), live("d"))
    one = plan(view(*members, partitions="12345678", learners_max=1))
    assert handovers(one) == [("1", "b", "c")]
    assert one.waiting == 2


def test_under_learners_max_running_learners_count_as_load() -> None:
    members = (live("a", "123456"), live("b", learning="1"), live("c"))
    assert planned(*members, partitions="123456", learners_max=2) == {
        "a": "a123456",
        "b": "l1",
        "c": "l3",
    }


def test_under_learners_max_the_least_loaded_takers_go_first() -> None:
    """T3, whose learners without a limit are 3 on S1 and 4 on S3."""
    members = (live("S1", "12"), live("S2", "34", leaving=True), live("S3", "5"))
    assert planned(*members, learners_max=1) == {"S1": "a12", "S2": "a34", "S3": "a5 l4"}


def test_a_lowered_learners_max_keeps_the_nearest_to_ready() -> None:
    newcomer = MemberView[str](member_id="b", learning={"1": Learner(8), "2": Learner(1)})
    lowered = plan(view(live("a", "1234"), newcomer, partitions="1234", learners_max=1))
    assert lowered.members["b"].learning == ("2",)


# --- standbys -------------------------------------------------------------------------------------


def test_after_a_handover_the_old_owner_is_the_standby() -> None:
    members = (live("a", "12"), live("b", ready="1", standby={"2": 0}), live("c", standby={"1": 0}))
    assert planned(*members, partitions="12", standby_replicas=1)["a"] == "a2 r1 s1"


def test_a_standby_stays_where_it_is() -> None:
    members = (live("a", "1"), live("b", "2", standby={"3": 4}), live("c", "3", standby={"1": 4}))
    assert planned(*members, partitions="123", standby_replicas=1) == {
        "a": "a1 s2",
        "b": "a2 s3",
        "c": "a3 s1",
    }


def test_standbys_are_evened_out_and_each_stays_until_the_one_that_comes_has_caught_up() -> None:
    a = live("a", "12", standby=dict.fromkeys("345", 0), caught_up="345")
    b = live("b", "34", standby=dict.fromkeys("126", 0), caught_up="126")
    begun = {"a": "a12 s345", "b": "a34 s126", "c": "a56 s13"}
    assert planned(a, b, live("c", "56"), partitions="123456", standby_replicas=1) == begun
    coming = live("c", "56", standby={"1": None, "3": 7})
    assert planned(a, b, coming, partitions="123456", standby_replicas=1) == begun
    nearly = replace(coming, caught_up="3")
    assert planned(a, b, nearly, partitions="123456", standby_replicas=1)["a"] == "a12 s45"
    there = replace(coming, caught_up="13")
    assert planned(a, b, there, partitions="123456", standby_replicas=1) == {
        "a": "a12 s45",
        "b": "a34 s26",
        "c": "a56 s13",
    }


def test_standbys_wait_while_something_is_learned() -> None:
    a = live("a", "123", standby={"4": 0}, caught_up="4")
    b = live("b", "4", standby=dict.fromkeys("123", 0), caught_up="123")
    assert planned(a, b, live("c"), partitions="1234", standby_replicas=1) == {
        "a": "a123 s4",
        "b": "a4 s123",
        "c": "l1",
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
    assert [m for m, part in one.items() if part.standby] == ["b", "c"]  # b until c has caught up
    assert [m for m, part in two.items() if part.standby] == ["b", "c", "e"]
    assert [m for m, part in four.items() if part.standby] == ["b", "c", "d", "e"]


@pytest.mark.parametrize("zone", ["x", "y"])
def test_standbys_that_stay_count_as_load(zone: str) -> None:
    near = live("b", zone=zone, standby={"1": 0})
    members = (live("a", "12", zone="x", capacity=9.0), near, live("c", zone=zone))
    assert planned(*members, partitions="12", standby_replicas=1)["b"] == "s1"
    assert planned(*members, partitions="12", standby_replicas=1)["c"] == "s2"


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


# --- what is stored -------------------------------------------------------------------------------


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
