"""A plan that was read before members were told something is refused, on every store."""

from collections.abc import Set

import pytest

from assignment.scripts import dashboard_side
from assignment.scripts.group_read import Purpose
from assignment.types import Drain, Partition, TargetRow
from tests.contract.world import P0, P1, World


def row(epoch: int, active: set[Partition], learning: Set[Partition] = frozenset()) -> TargetRow:
    return TargetRow(target_epoch=epoch, active=frozenset(active), learning=frozenset(learning))


@pytest.fixture
def leaving(world: World) -> World:
    """`a` owns, is told to leave, and `b` learns what it has."""
    world.stand(a={P0, P1}, b=set())
    epoch = world.set_drain(Drain.LEAVING, "a").group_epoch
    rows = {"a": row(epoch, {P0, P1}), "b": row(epoch, set(), {P0, P1})}
    assert world.set_rows(world.read(Purpose.REBALANCE), rows).done
    return world


def promoted(epoch: int) -> dict[str, TargetRow]:
    return {"a": row(epoch, {P1}), "b": row(epoch, {P0}, {P1})}


@pytest.mark.parametrize("drain", [Drain.NONE, Drain.FORCED])
def test_what_was_planned_before_members_were_told_is_refused(leaving: World, drain: Drain) -> None:
    leaving.run(dashboard_side.request_rebalance("ready", "b"))
    before = leaving.read(Purpose.REBALANCE)
    leaving.set_drain(drain, "a")
    target = leaving.read().target
    assert not leaving.set_rows(before, promoted(before.meta.group_epoch)).done
    assert leaving.read().target == target
    later = leaving.read(Purpose.REBALANCE)
    assert leaving.set_rows(later, promoted(later.meta.group_epoch)).done


def test_what_tells_nobody_anything_new_refuses_no_plan(leaving: World) -> None:
    leaving.run(dashboard_side.request_rebalance("ready", "b"))
    before = leaving.read(Purpose.REBALANCE)
    leaving.set_drain(Drain.LEAVING, "a")
    leaving.set_drain(Drain.NONE, "b", "stranger")
    assert leaving.set_rows(before, promoted(before.meta.group_epoch)).done
