"""A person sets committed offsets while a group stands still: owners go on from there, under new
fences, and each event counts once in the state.
"""

from collections.abc import Iterator

import pytest

from assignment.pauses import Pause, Pauses
from assignment.scripts.offsets import OffsetSet, offset_facts, set_offset
from assignment.types import Offset
from assignment.wire import StreamKeys
from tests.simulation import checks
from tests.simulation.ledger import Book
from tests.simulation.replicas import effects
from tests.simulation.seeds import LAG_MS
from tests.simulation.test_pauses import CONFIRMED_MS, all_stand_still, paused, put
from tests.simulation.world import World, simulated

GROUP = Pauses(version=1, group=Pause(actor="ann", reason="", at_ms=1))


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


def set_back(world: World) -> dict[str, int]:
    """Each partition to the end of a commit half way, where state leads there; the new fences."""
    fences = {}
    for partition in world.settings.all_partitions():
        book = world.ledger.book(str(partition))
        if not book.events:
            continue
        seen = world.run(offset_facts(partition, Offset(*book.events[len(book.events) // 2])))
        if seen.state_at is None or seen.state_at == seen.committed:
            continue
        hold = StreamKeys(partition.stream).hold(partition.number)
        world.server.ask("SET", hold, str(seen.state_at))
        kept = {entry_id for entry_id, _ in world.server.entries(world.entries(partition.number))}
        if not kept.issuperset(book.between(tuple(seen.state_at), tuple(seen.committed))):
            continue  # trimmed
        answer = world.run(set_offset(partition, seen, seen.state_at, seen.state_total))
        assert answer.result is OffsetSet.DONE
        fences[str(partition)] = answer.fence
        _goes_back(book, seen.state_at)
    return fences


def _goes_back(book: Book, to: Offset) -> None:
    """What the ledger demands from here on."""
    ids = book.between((0, 0), tuple(to))
    book.total, book.values = effects(0, {}, [book.numbers[one] for one in ids])
    book.live, book.committed = None, tuple(to)


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_owners_go_on_from_what_was_set_back_and_each_event_counts_once(seed: int) -> None:
    """The seeds are odd: of stateful groups."""
    world = paused(seed, GROUP)
    world.run_until(all_stand_still, CONFIRMED_MS, "owners have confirmed")
    owners = {p: grant.member_id for p, grant in world.read().grants.items()}
    fences = set_back(world)
    assert fences
    world.run_until(all_stand_still, CONFIRMED_MS, "owners have confirmed under the new fences")
    grants = world.read().grants
    assert {p: grant.member_id for p, grant in grants.items()} == owners, "nobody lost a lock"
    assert {p: grants[q].fence for q in grants if (p := str(q)) in fences} == fences
    world.producing = False
    put(world, Pauses(version=2))
    world.run_until(lambda w: checks.lag(w) == 0, LAG_MS, "lag returns to 0")
    assert world.ledger.destroyed() == 0
    checks.history_is_whole(world)
