"""Each planted fault is found and named; a sound group passes."""

from dataclasses import replace

import pytest

from assignment.errors import InvariantBroken
from assignment.invariants import check
from assignment.scripts.group_read import GroupRead
from assignment.scripts.held import Lock
from assignment.types import Drain, TargetRow
from tests.builders import fence, grant, group, live, partition, partitions, settings
from tests.moments import check_step

SOUND = group(live("a", {0: 1}), live("b", {1: 2}), settings=settings(partitions=2))


def test_a_sound_group_passes() -> None:
    check(SOUND)
    check_step(SOUND, SOUND)


def test_a_group_with_members_that_own_nothing_yet_passes() -> None:
    check(group(live("a", in_target=False), group_epoch=1, target_epoch=0))


def test_a_report_of_an_earlier_incarnation_may_be_ahead_of_a_redis_that_lost_writes() -> None:
    check(group(live("a", {0: 9}, locked={}, target=()), incarnation=2))


def test_a_report_may_be_ahead_of_a_redis_that_lost_writes_and_has_no_incarnation_yet() -> None:
    check(group(live("a", {0: 9}, locked={}, target=()), run_id="another"))


def test_when_only_members_that_leave_are_left_some_partitions_have_no_owner() -> None:
    told = group(live("a", {0: 1}), settings=settings(partitions=2), group_epoch=7)
    leaving = {m: replace(row, drain=Drain.LEAVING) for m, row in told.members.items()}
    check(replace(told, members=leaving))


def test_what_no_member_that_stays_can_serve_has_no_owner() -> None:
    unserved = {"unserved": {1}, "target": (0,)}
    told = settings(partitions=2)
    check(group(live("a", {0: 1}, **unserved), settings=told, group_epoch=7))
    other = live("b", target=())
    with pytest.raises(InvariantBroken, match="the target leaves flights:1 out"):
        check(group(live("a", {0: 1}, **unserved), other, settings=told, group_epoch=7))


def rows(**active: frozenset) -> dict[str, TargetRow]:
    return {m: TargetRow(target_epoch=7, active=own) for m, own in active.items()}


def learning(member: str) -> TargetRow:
    own = partitions(0) if member == "a" else frozenset()
    return TargetRow(target_epoch=7, active=own, learning=partitions(1))


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (replace(SOUND, grants={}), "flights:0 is locked by a and was never granted"),
        (
            replace(SOUND, grants=dict(SOUND.grants) | {partition(0): grant("a", 3)}),
            f"locked by a/{fence(1)}, last granted to a/{fence(3)}",
        ),
        (
            replace(SOUND, grants=dict(SOUND.grants) | {partition(0): grant("a", ended="expired")}),
            "flights:0 is locked by a after its grant was expired",
        ),
        (
            replace(SOUND, locks={partition(0): Lock("c", fence(1), 1)}),
            "flights:0 is locked by c, who is no member",
        ),
        (replace(SOUND, meta=replace(SOUND.meta, incarnation=0)), "above incarnation 0"),
        (group(live("a", {0: 9}, locked={0: 1})), f"a reports flights:0 under {fence(9)}"),
        (
            group(live("a", {0: 1}), live("b", {0: 1}, locked={}, target=())),
            f"b reports flights:0 under {fence(1)}, a's fence",
        ),
        (replace(SOUND, meta=replace(SOUND.meta, group_epoch=6)), "7 is above group_epoch 6"),
        (
            replace(SOUND, target=rows(a=partitions(0), b=partitions(0, 1))),
            "the target gives flights:0 to a and b",
        ),
        (
            replace(SOUND, target={m: learning(m) for m in "ab"}),
            "flights:1 is learned by a and b",
        ),
        (
            replace(
                SOUND,
                target={
                    "a": learning("a"),
                    "b": TargetRow(target_epoch=7, active=partitions(1), standby=partitions(1)),
                },
            ),
            "flights:1 has two roles at b",
        ),
        (
            replace(SOUND, target={"a": TargetRow(target_epoch=6)}),
            "the row of a is of epoch 6, not 7",
        ),
        (
            group(live("a", {0: 1}), settings=settings(partitions=2), group_epoch=7),
            "the target leaves flights:1 out",
        ),
        (
            group(live("a", {0: 1, 1: 1}), settings=settings(partitions=1), group_epoch=7),
            "the target gives flights:1, which is not",
        ),
        (replace(SOUND, beats={"a": 1}), "b has no beat"),
        (replace(SOUND, beats={"a": 1, "b": 1, "c": 1}), "c has a beat and is no member"),
        (replace(SOUND, asked={"c": 1}), "c has a row in asked and is no member"),
    ],
)
def test_a_fault_is_named(broken: GroupRead, fault: str) -> None:
    with pytest.raises(InvariantBroken) as raised:
        check(broken)
    assert fault in str(raised.value)


@pytest.mark.parametrize(
    ("after", "fault"),
    [
        (replace(SOUND, meta=replace(SOUND.meta, group_epoch=5)), "group_epoch fell from 8 to 5"),
        (replace(SOUND, grants={}), "the grant of flights:0 is gone"),
        (
            group(live("a", {0: 1}), live("b", {1: 1})),
            f"the fence of flights:1 fell from {fence(2)} to {fence(1)}",
        ),
        (
            group(live("c", {0: 1}), live("b", {1: 2})),
            f"fence {fence(1)} of flights:0 went from a to c",
        ),
    ],
)
def test_a_step_back_is_named(after: GroupRead, fault: str) -> None:
    with pytest.raises(InvariantBroken) as raised:
        check_step(SOUND, after)
    assert fault in str(raised.value)


def test_an_ended_grant_does_not_live_again() -> None:
    before = replace(SOUND, grants={partition(0): grant("a", ended="released")})
    with pytest.raises(InvariantBroken, match="lives again"):
        check_step(before, SOUND)
