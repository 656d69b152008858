"""Members that a scale-down tells to leave, how they hear of it, and what was planned before."""

import pytest

from assignment.scripts.group_read import Purpose
from assignment.types import Drain, TargetRow
from tests.contract.world import P0, P1, P2, World, row


def test_members_are_told_to_leave_and_hear_it_both_ways(world: World) -> None:
    world.stand(a={P0}, b={P1})
    before = world.group_epoch()
    assert world.set_drain(Drain.LEAVING, "a", "stranger") == ["a"]
    assert world.group_epoch() == before + 1
    members = world.read().members
    assert (members["a"].drain, members["b"].drain) == (Drain.LEAVING, Drain.NONE)
    assert not members["a"].leaving
    assert world.report("a", 1).drain == Drain.LEAVING
    assert world.report("b", 1).drain == Drain.NONE
    assert world.store.target("a").drain is Drain.LEAVING
    assert world.store.target("stranger").drain is None


def test_told_the_same_again_nothing_changes(world: World) -> None:
    world.stand(a={P0}, b={P1})
    world.set_drain(Drain.LEAVING, "a")
    epoch, hints = world.group_epoch(), world.last_change()
    assert world.set_drain(Drain.LEAVING, "a", "stranger") == []
    assert world.set_drain(Drain.LEAVING) == []
    assert (world.group_epoch(), world.last_change()) == (epoch, hints)
    assert world.set_drain(Drain.FORCED, "a", "b") == ["a", "b"]
    assert world.set_drain(Drain.NONE, "b") == ["b"]
    assert world.group_epoch() == epoch + 2
    reasons = [reason for reason, _ in world.changes()]
    assert reasons[-3:] == ["scale-down", "forced", "cancelled"]


def test_taken_back_the_targets_learners_are_dropped_with_it(world: World) -> None:
    world.stand(a={P0}, b={P1})
    world.set_drain(Drain.LEAVING, "a")
    view = world.read(Purpose.REBALANCE)
    epoch = view.meta.group_epoch
    placed = {"a": row(epoch, {P0}), "b": row(epoch, {P1}, {P0}, {P2})}
    world.set_rows(view, placed)
    world.set_drain(Drain.LEAVING, "b")
    assert world.read().target == placed, "another one is told: they learn on"
    world.set_drain(Drain.NONE, "stranger")
    assert world.read().target == placed, "nobody was told anything"
    world.set_drain(Drain.NONE, "a")
    assert world.read().target == placed | {"b": row(epoch, {P1}, (), {P2})}


def test_what_was_told_outlives_reports_and_joins_until_the_member_leaves(alone: World) -> None:
    alone.set_drain(Drain.LEAVING, "a")
    alone.report("a", 1, able=True, leaving=True)
    said = alone.read().members["a"]
    assert (said.able, said.leaving, said.drain) == (True, True, Drain.LEAVING)
    for gone, drain in ((False, Drain.LEAVING), (True, Drain.NONE)):
        if gone:
            alone.leave("a")
        alone.join("a")
        assert alone.read().members["a"].drain is drain


# --- a target that was planned before -------------------------------------------------------------


@pytest.fixture
def leaving(world: World) -> World:
    """`a` owns, is told to leave, and `b` learns what it has."""
    world.stand(a={P0, P1}, b=set())
    world.set_drain(Drain.LEAVING, "a")
    epoch = world.group_epoch()
    rows = {"a": row(epoch, {P0, P1}), "b": row(epoch, set(), {P0, P1})}
    assert world.set_rows(world.read(Purpose.REBALANCE), rows) is None
    return world


def promoted(epoch: int) -> dict[str, TargetRow]:
    return {"a": row(epoch, {P1}), "b": row(epoch, {P0}, {P1})}


@pytest.mark.parametrize("drain", [Drain.NONE, Drain.FORCED])
def test_what_was_planned_before_members_were_told_is_refused(leaving: World, drain: Drain) -> None:
    before = leaving.due()
    leaving.set_drain(drain, "a")
    target = leaving.read().target
    assert leaving.set_rows(before, promoted(before.meta.group_epoch)) is not None
    assert leaving.read().target == target
    later = leaving.read(Purpose.REBALANCE)
    assert leaving.set_rows(later, promoted(later.meta.group_epoch)) is None


def test_what_tells_nobody_anything_new_refuses_no_plan(leaving: World) -> None:
    before = leaving.due()
    leaving.set_drain(Drain.LEAVING, "a")
    leaving.set_drain(Drain.NONE, "b", "stranger")
    assert leaving.set_rows(before, promoted(before.meta.group_epoch)) is None
