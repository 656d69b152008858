"""What a person paused is not planned; its owner keeps its lock and confirms by asking."""

import pytest

from assignment.errors import InvalidInput
from assignment.pauses import Pause, Pauses, PauseState, progress_of
from assignment.scripts.pausing import PausesSet, StandsStill, pause_state, set_pauses
from assignment.types import START, Claim, Held, HeldState, Partition
from tests.contract.world import P0, P1, P2, World, offset

PAUSE = Pause(actor="ann", reason="a look at the sink", at_ms=1_000)
GROUP = Pauses(version=1, group=PAUSE)
ONE = Pauses(version=1, partitions={P0: PAUSE})
NONE = Pauses(version=2)


def put(world: World, pauses: Pauses, over: int | None) -> PausesSet:
    return world.run(set_pauses(pauses, over))


def state(world: World, partition: Partition = P0) -> StandsStill:
    return world.run(pause_state([partition]))[0]


def planned(world: World, member_id: str = "a") -> set[Partition]:
    return {start.partition for start in world.next_batch(member_id)}


def states(world: World, *partitions: Partition) -> dict[Partition, PauseState]:
    return world.read().paused(partitions)


def test_a_paused_partition_is_planned_no_more_and_its_owner_confirms(world: World) -> None:
    fence, _ = world.runs(a={P0, P1})
    assert put(world, ONE, 0) is PausesSet.DONE
    assert state(world) == StandsStill(P0, PauseState.PAUSING, PAUSE, fence)
    assert world.commit(P0, fence, START, offset(1)).applied  # the batch in hand ends as usual
    assert planned(world) == {P1}
    assert state(world) == StandsStill(P0, PauseState.PAUSED, PAUSE, fence)
    assert state(world, P1) == StandsStill(P1, None, None, fence)
    assert world.renew("a", Claim(P0, fence)).held == (True,)
    assert world.read().pauses == ONE
    assert world.read().confirmed == {P0: fence}


def test_a_pause_of_the_group_covers_partitions_that_come_later(world: World) -> None:
    world.runs(a={P0, P1})
    put(world, GROUP, 0)
    assert planned(world) == set()
    assert states(world, P0, P1, P2) == {
        P0: PauseState.PAUSED,
        P1: PauseState.PAUSED,
        P2: PauseState.UNOWNED,
    }
    world.assign(a={P0, P1, P2})
    world.running("a", P2)
    assert progress_of(states(world, P0, P1, P2)) == "pausing (2 of 3)"
    assert planned(world) == set()
    assert progress_of(states(world, P0, P1, P2)) == "paused"


def test_a_new_owner_stands_still_too_and_confirms_anew(world: World) -> None:
    (old,) = world.runs(a={P0}, b=set())
    put(world, ONE, 0)
    planned(world)
    world.let_expire("a", Claim(P0, old))
    assert state(world).state is PauseState.UNOWNED
    world.assign(b={P0})
    fence = world.running("b", P0)
    assert state(world) == StandsStill(P0, PauseState.PAUSING, PAUSE, fence)
    assert planned(world, "b") == set()
    assert state(world) == StandsStill(P0, PauseState.PAUSED, PAUSE, fence)


def test_what_is_paused_can_be_revoked(world: World) -> None:
    (fence,) = world.runs(a={P0})
    put(world, ONE, 0)
    planned(world)
    assert world.move("a", P0, fence, HeldState.RUNNING, HeldState.REVOKING)
    planned(world)
    assert world.store.owned("a") == {P0: Held(fence=fence, state=HeldState.REVOKED)}


def test_resumed_it_goes_on_and_is_not_confirmed_when_it_is_paused_again(world: World) -> None:
    (fence,) = world.runs(a={P0})
    put(world, ONE, 0)
    planned(world)
    assert put(world, NONE, 1) is PausesSet.DONE
    assert planned(world) == {P0}
    assert put(world, Pauses(version=3, group=PAUSE), 2) is PausesSet.DONE
    assert state(world) == StandsStill(P0, PauseState.PAUSING, PAUSE, fence)


def test_a_change_that_was_made_of_older_pauses_is_refused(world: World) -> None:
    world.runs(a={P0})
    assert put(world, ONE, 0) is PausesSet.DONE
    assert put(world, ONE, 0) is PausesSet.ALREADY  # its reply was lost
    assert put(world, GROUP, 0) is PausesSet.LATE  # of the same version, by another
    assert put(world, NONE, 1) is PausesSet.DONE
    assert put(world, ONE, 0) is PausesSet.LATE  # comes a second time
    assert put(world, Pauses(version=9, group=PAUSE), 1) is PausesSet.LATE
    assert world.read().pauses == NONE
    assert put(world, Pauses(version=9, group=PAUSE), None) is PausesSet.DONE  # put back


def test_a_row_that_cannot_be_read_pauses_all_the_same(world: World) -> None:
    world.runs(a={P0})
    world.door.ask("HSET", world.keys.pauses, str(P0), "{", "nonsense", "{}")
    assert planned(world) == set()
    assert world.read().pauses.partitions == {P0: Pause(actor="", reason="", at_ms=0)}


# --- the rules, without a store


def test_who_paused_first_stands_and_what_stood_alone_stays_paused() -> None:
    later = Pause(actor="bob", reason="", at_ms=2_000)
    assert GROUP.with_group(later) is GROUP
    both = ONE.with_group(later)
    assert both == Pauses(version=2, group=later, partitions={P0: PAUSE})
    assert (both.of(P0), both.of(P1)) == (PAUSE, later)
    assert both.without_group() == Pauses(version=3, partitions={P0: PAUSE})
    assert both.without_partitions([P0]) == Pauses(version=3, group=later)
    assert ONE.without_partitions([P1]) is ONE


def test_a_partition_of_a_paused_group_is_not_resumed_alone() -> None:
    with pytest.raises(InvalidInput, match="flights:0 is paused with the whole group"):
        GROUP.without_partitions([P0])


def test_too_many_partitions_are_not_paused_one_by_one() -> None:
    many = [Partition("flights", n) for n in range(1_001)]
    with pytest.raises(InvalidInput, match="1001 partitions paused individually are above 1000"):
        Pauses().with_partitions(many, PAUSE)
