"""What a tick reads of a group that rests tells of everything that scripts change."""

from collections.abc import Callable

import pytest

from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Claim, Coordination, Drain
from tests.contract.world import LONG_MS, P0, P1, World, offset

SHORT_MS = 5_000


def ends(world: World) -> int | None:
    """Before that no lock of `a` ends."""
    return world.read().ends.get("a")


def until_ms(view: GroupRead) -> list[int]:
    return [grant.until_ms for _, grant in sorted(view.grants.items())]


@pytest.fixture
def both(world: World) -> tuple[World, Claim, Claim]:
    """`a` runs P0 and P1."""
    fences = world.runs(a={P0, P1})
    return world, Claim(P0, fences[0]), Claim(P1, fences[1])


def test_a_renew_of_all_moves_the_next_end_on(both: tuple[World, Claim, Claim]) -> None:
    world, *claims = both
    assert ends(world) == min(until_ms(world.read()))
    world.renew("a", *claims, ttl_ms=2 * LONG_MS)
    view = world.read()
    assert until_ms(view) == [view.ends["a"]] * 2
    world.renew("a", *claims, ttl_ms=SHORT_MS)
    view = world.read()
    assert until_ms(view) == [view.ends["a"]] * 2, "also when it ends earlier than before"


def test_a_lock_that_a_renew_leaves_out_keeps_its_end(both: tuple[World, Claim, Claim]) -> None:
    world, first, second = both
    world.renew("a", first, second, ttl_ms=SHORT_MS)
    before = ends(world)
    world.renew("a", first)
    assert ends(world) == before == until_ms(world.read())[1]
    world.renew("a")
    assert ends(world) == before


def test_a_lock_that_is_acquired_besides_ends_no_later_than_is_known(world: World) -> None:
    world.stand(a={P0, P1})
    world.acquire("a", P0, ttl_ms=2 * LONG_MS)
    world.acquire("a", P1, ttl_ms=SHORT_MS)
    view = world.read()
    assert view.ends == {"a": view.grants[P1].until_ms}


def test_who_holds_nothing_has_no_end(both: tuple[World, Claim, Claim]) -> None:
    world, first, second = both
    world.release("a", {P0: first.fence, P1: second.fence})
    world.renew("a")
    assert ends(world) is None
    world.acquire("a", P0)
    assert ends(world) is not None
    world.evict("a")
    assert ends(world) is None


@pytest.mark.parametrize(
    "happens",
    [
        lambda world: world.join("b"),
        lambda world: world.leave("a"),
        lambda world: world.evict("a"),
        lambda world: world.report("a", 2, able=True, leaving=True),
        lambda world: world.report("a", 2),
        lambda world: world.set_drain(Drain.LEAVING, "a"),
        lambda world: world.request_rebalance(),
        lambda world: world.configure(grace_ms=100),
        lambda world: world.set_mode(Coordination.CLIENT),
        lambda world: world.set_incarnation(2),
        lambda world: world.acquire("a", P1),
        lambda world: world.assign(a={P0}),
    ],
)
def test_a_change_is_counted(world: World, happens: Callable[[World], object]) -> None:
    world.stand(a={P0, P1})
    world.report("a", 1, able=True)
    before = world.read().counted
    happens(world)
    assert world.read().counted != before


def test_what_changes_nothing_is_not_counted(both: tuple[World, Claim, Claim]) -> None:
    world, first, second = both
    world.report("a", 1, able=True)
    before = world.read().counted
    world.report("a", 2, able=True)
    world.renew("a", first, second)
    world.commit(P0, first.fence, offset(0), offset(1))
    world.read(Purpose.TICK)
    assert world.read().counted == before


def test_the_first_report_of_a_member_is_counted(world: World) -> None:
    world.stand(a={P0})
    before = world.read().counted
    world.report("a", 1)
    assert world.read().counted != before


@pytest.mark.parametrize(
    "seen",
    [
        {"incarnation": 2},
        {"incarnation": 1, "mode_epoch": 2},
        {"incarnation": 1, "settings_epoch": 2},
        {"target_incarnation": 1, "target_epoch": 100},
    ],
)
def test_whoever_saw_more_than_redis_has_is_counted_with_each_report(
    world: World, seen: dict[str, int]
) -> None:
    world.stand(a={P0})
    world.report("a", 1, able=True, mode_epoch=1, settings_epoch=1)
    for sequence in (2, 3):
        before = world.read().counted
        world.report("a", sequence, able=True, **seen)
        assert world.read().counted != before


def test_agents_that_are_to_coordinate_hear_of_a_dashboard_that_looked_at_nothing(
    world: World,
) -> None:
    world.stand(a={P0})
    world.set_mode(Coordination.CLIENT)
    assert world.read().meta.served_ms == 0, "there is none"
    world.set_mode(Coordination.SERVER)
    world.door.ask("HSET", world.keys.meta, "identity", "its")
    world.set_mode(Coordination.CLIENT)
    view = world.read()
    assert view.now_ms - view.meta.served_ms < LONG_MS
