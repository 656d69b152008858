"""The worked traces T1 to T9 of learners.md. Where it leaves the choice of names free, they are
those of our own tie-breaks, which the docstring of the planner gives."""

import pytest

from assignment.member.replicas import ready_learners
from assignment.planner import plan
from assignment.planner.values import LearnerSettings
from assignment.types import Partition
from tests.assignment.rounds import Group, live, planned, roles, view

STABLE = (live("S1", "12"), live("S2", "34"), live("S3", "5"))
S1, S2, S3 = STABLE
TOLD = live("S2", "34", leaving=True)


def test_t1_a_newcomer_learns_one_partition_of_the_fullest() -> None:
    expected = {"S1": "a12", "S2": "a34", "S3": "a5", "S4": "l1"}
    assert planned(*STABLE, live("S4")) == expected


def test_t1_a_second_newcomer_does_not_disturb_the_first() -> None:
    expected = {"S1": "a12", "S2": "a34", "S3": "a5", "S4": "l1", "S5": "l3"}
    assert planned(*STABLE, live("S4", learning="1"), live("S5")) == expected


def test_t1_a_ready_learner_takes_over_while_the_other_goes_on_learning() -> None:
    expected = {"S1": "a2 r1", "S2": "a34", "S3": "a5", "S4": "a1", "S5": "l3"}
    assert planned(*STABLE, live("S4", ready="1"), live("S5", learning="3")) == expected


def test_t1_the_last_learner_ends_it() -> None:
    expected = {"S1": "a2", "S2": "a4 r3", "S3": "a5", "S4": "a1", "S5": "a3"}
    assert planned(live("S1", "2"), S2, S3, live("S4", "1"), live("S5", ready="3")) == expected


def test_t2_what_nobody_owned_is_given_at_once_and_then_shared_by_learners() -> None:
    assert planned(live("S1")) == {"S1": "a12345"}
    assert planned(live("S1", "12345"), live("S2"), live("S3")) == {
        "S1": "a12345",
        "S2": "l13",
        "S3": "l2",
    }
    both = planned(live("S1", "12345"), live("S2", ready="13"), live("S3", ready="2"))
    assert both == {"S1": "a45 r123", "S2": "a13", "S3": "a2"}


def test_t3_a_member_that_leaves_keeps_its_partitions_until_others_can_take_them() -> None:
    assert planned(S1, TOLD, S3) == {"S1": "a12 l3", "S2": "a34", "S3": "a5 l4"}


def test_t3_one_ready() -> None:
    round_two = planned(live("S1", "12", learning="3"), TOLD, live("S3", "5", ready="4"))
    assert round_two == {"S1": "a12 l3", "S2": "a3 r4", "S3": "a45"}


def test_t3_both_ready() -> None:
    leaver = live("S2", "3", leaving=True)
    round_three = planned(live("S1", "12", ready="3"), leaver, live("S3", "45"))
    assert round_three == {"S1": "a123", "S2": "r3", "S3": "a45"}


def test_t4_after_a_crash_the_learner_takes_its_partition_though_not_ready() -> None:
    assert planned(S2, S3, live("S4", learning="1")) == {"S2": "a34", "S3": "a25", "S4": "a1"}


@pytest.mark.parametrize(("eager", "rebalances"), [(True, 2), (False, 1)])
def test_t5_eager_promotes_one_by_one_and_stable_all_together(eager: bool, rebalances: int) -> None:
    one, two = Partition("s", 1), Partition("s", 2)
    called: frozenset[Partition] = frozenset()
    called_for = 0
    for caught_up in ({one: True, two: False}, {one: True, two: True}):
        ready = ready_learners(caught_up, called, eager=eager)
        called_for += ready > called
        called = ready
    assert called_for == rebalances
    assert called == {one, two}


def test_t6_and_t8_the_leaver_is_gone_before_anyone_is_ready() -> None:
    left = planned(live("S1", "12", learning="3"), live("S3", "5", learning="4"))
    assert left == {"S1": "a123", "S3": "a45"}


def test_t6_time_ran_out_and_the_leaver_is_still_there() -> None:
    forced = live("S2", "34", leaving=True, forced=True)
    left = planned(live("S1", "12", learning="3"), forced, live("S3", "5", learning="4"))
    assert left == {"S1": "a123", "S2": "r34", "S3": "a45"}


@pytest.mark.parametrize("standby_replicas", [0, 1])
def test_t7_standbys_become_the_learners(standby_replicas: int) -> None:
    assignment = plan(
        view(
            live("S1", "12", standby={"4": 0}),
            TOLD,
            live("S3", "5", standby={"3": 0}),
            standby_replicas=standby_replicas,
        )
    )
    learning = {m: "".join(part.learning) for m, part in assignment.members.items()}
    assert learning == {"S1": "4", "S2": "", "S3": "3"}


def test_t9_a_crash_of_one_that_stays() -> None:
    assert planned(TOLD, live("S3", "5", learning="4")) == {"S2": "a34", "S3": "a125 l34"}
    ready = planned(TOLD, live("S3", "125", ready="34"))
    assert ready == {"S2": "r34", "S3": "a12345"}


def test_t3_is_played_by_members_to_its_end() -> None:
    group = Group("12345", True, LearnerSettings())
    for member in (S1, TOLD, S3):
        group.join(member)
    group.plan()
    group.carry_out_all()
    group.catch_up("S3")
    assert roles(group.plan())["S2"] == "a3 r4"
    group.carry_out_all()
    group.catch_up("S1")
    assert roles(group.plan())["S2"] == "r3"
    group.carry_out_all()
    assert {m: "".join(sorted(a.owned)) for m, a in group.actors.items()} == {
        "S1": "123",
        "S3": "45",
    }
