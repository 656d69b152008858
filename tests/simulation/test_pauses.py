"""A group, or some of its partitions, stands still while members die and move."""

from collections.abc import Iterator

import pytest

from assignment.pauses import Pause, Pauses, PauseState
from assignment.scripts.pausing import PausesSet, set_pauses
from assignment.types import Partition
from tests.fakes.script_bugs import next_batch_of_what_is_paused
from tests.simulation import checks
from tests.simulation.faults import FAULTS, heal
from tests.simulation.ledger import Broken
from tests.simulation.seeds import LAG_MS, heal_ms
from tests.simulation.world import World, simulated

PAUSE = Pause(actor="ann", reason="", at_ms=1)
SOME = {Partition("s", n): PAUSE for n in range(3)}
PAUSES = Pauses(version=1, group=PAUSE), Pauses(version=1, partitions=SOME)
CONFIRMED_MS = 5_000


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


def paused(seed: int, pauses: Pauses) -> World:
    """Three members, each with batches, that were told to stand still."""
    world = World(seed, stateful=seed % 2 == 1)
    for name in "abc":
        world.add(name)
    world.run_until(checks.settled, 20_000, "the group settles at the start")
    put(world, pauses)
    return world


def put(world: World, pauses: Pauses) -> None:
    world.database.pauses = pauses
    assert world.run(set_pauses(pauses, pauses.version - 1)) is PausesSet.DONE


def all_stand_still(world: World) -> bool:
    states = world.read().paused(world.settings.all_partitions())
    return bool(states) and set(states.values()) == {PauseState.PAUSED}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pauses", PAUSES, ids=("group", "partitions"))
def test_what_is_paused_moves_and_stands_still_whatever_dies(seed: int, pauses: Pauses) -> None:
    world = paused(seed, pauses)
    for name in ("kill", "suspend", "leave", "join", "kill_consumer"):
        FAULTS[name](world, [world.random.choice(world.living())])
        world.run_for(world.random.randint(200, 2_000))
    heal(world)
    world.run_until(checks.settled, heal_ms(world), "settled again")
    world.run_until(all_stand_still, CONFIRMED_MS, "new owners have confirmed")
    still = [p for p in world.settings.all_partitions() if pauses.of(p)]
    before = {p: world.ledger.book(str(p)).committed for p in still}
    world.run_for(world.settings.consumer_stall_ms * 2)
    assert {p: world.ledger.book(str(p)).committed for p in still} == before
    assert checks.settled(world)  # nobody is called stalled for it
    world.producing = False
    put(world, Pauses(version=2))
    world.run_until(lambda w: checks.lag(w) == 0, LAG_MS, "lag returns to 0")
    assert world.ledger.destroyed() == 0
    checks.history_is_whole(world)


@pytest.mark.parametrize("fault", ["redis_wiped", "redis_loses_writes"])
def test_a_redis_that_forgot_is_told_again_before_anything_is_planned(fault: str) -> None:
    world = paused(3, PAUSES[0])
    world.run_until(all_stand_still, CONFIRMED_MS, "owners have confirmed")
    before = {str(p): world.ledger.book(str(p)).total for p in world.settings.all_partitions()}
    FAULTS[fault](world, world.living()[:1])
    world.run_for(2_000)
    heal(world)
    world.run_until(checks.settled, heal_ms(world), "settled again")
    world.run_until(all_stand_still, CONFIRMED_MS, "new owners have confirmed")
    assert all(world.ledger.book(p).total <= total for p, total in before.items())


def test_a_batch_of_what_is_paused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    next_batch_of_what_is_paused(monkeypatch)
    with pytest.raises(Broken, match="is paused and was planned"):
        paused(0, PAUSES[0]).run_for(1_000)
