"""A batch's effects and a partition's state, on the driver, without Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.spark.commit import Committer, PartitionChanges
from agent.spark.effects import StateEffects
from agent.spark.reading import Counted
from agent.state.errors import StateError
from agent.state.files import remove_replica
from agent.state.partition import PartitionState
from assignment.troubles import Halted, HaltReason
from assignment.types import START, Claim, Range
from tests.agent.state_reading import restored, values_of
from tests.contract.world import P0, P1, World, offset
from tests.fakes import FakeDoor, FakeRedis

GROUP = "sums"


def merge(old: Any, change: Mapping[str, Any]) -> Any:
    return (old or 0) + change["amount"]


class Interrupted:
    """An LMDB environment in which another process writes before the read transaction `number`."""

    def __init__(self, environment: Any, number: int, write: Any) -> None:
        self.environment, self.left, self.write = environment, number, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self.environment, name)

    def begin(self, *arguments: Any, **options: Any) -> Any:
        if not options.get("write"):
            self.left -= 1
            if self.left == 0:
                self.write()
        return self.environment.begin(*arguments, **options)


@pytest.fixture
def world() -> World:
    world = World(FakeDoor(FakeRedis()), GROUP)
    world.stand(a={P0, P1})
    return world


def committed_once(world: World, folder: Path) -> tuple[StateEffects, Committer, int]:
    fence = world.running("a", P0)
    effects = StateEffects(world.store, str(folder), GROUP, merge)
    committer = Committer(world.store, "a", effects, lambda: True)
    changes = PartitionChanges([("k", {"amount": 5})])
    one = Range(P0, START, offset(5), fence)
    assert committer.commit([(one, Counted(5, "5-0"))], {0: changes}).applied == {P0: 5}
    return effects, committer, fence


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_merge_takes_offset_and_values_of_one_moment(
    world: World, tmp_path: Path, number: int
) -> None:
    """The agent may restore the same replica once more beside the consumer that runs already: what
    it holds meanwhile is older, and must not be merged with.
    """
    effects, _, fence = committed_once(world, tmp_path)
    state = effects._states[P0]

    def restore_older() -> None:
        state.clear()
        state.add([("k", 1)])
        state.finish(offset(1), 1, "0-0", fence)

    state._environment = Interrupted(state._environment, number, restore_older)
    one = Range(P0, offset(5), offset(7), fence)
    prepared = effects.prepare(
        one, Counted(2, "7-0"), offset(5), PartitionChanges([("k", {"amount": 2})])
    )
    assert prepared is None or prepared.values == {"k": 7}


def test_a_replica_that_was_removed_while_nobody_wanted_it_is_opened_anew(
    world: World, tmp_path: Path
) -> None:
    """Else the driver would go on with a file without a name, and restore it once more."""
    effects, committer, fence = committed_once(world, tmp_path)
    remove_replica(tmp_path, GROUP, P0)
    agents = PartitionState.open(tmp_path, GROUP, P0)
    assert restored(world.store, agents, P0) == offset(5)
    agents.close()
    changes = PartitionChanges([("k", {"amount": 2})])
    one = Range(P0, offset(5), offset(7), fence)
    assert committer.commit([(one, Counted(2, "7-0"))], {0: changes}).applied == {P0: 2}
    effects.close()
    state = PartitionState.open(tmp_path, GROUP, P0)
    assert (state.offset, values_of(state, ["k"])) == (offset(7), {"k": 7})
    state.close()


def test_total_of_the_state_is_that_of_the_commit(world: World, tmp_path: Path) -> None:
    effects, committer, fence = committed_once(world, tmp_path)
    one = Range(P0, offset(5), offset(7), fence)
    committer.commit([(one, Counted(2, "7-0"))], {})
    state = effects._states[P0]
    assert (state.offset, state.total, values_of(state, ["k"])) == (offset(7), 7, {"k": 5})
    assert world.read().applied[P0].total == 7


def test_each_halted_partition_says_its_own_reason(world: World, tmp_path: Path) -> None:
    """An agent takes a partition for lag that its consumer does not tell as halted."""
    ranges = [Range(p, START, offset(5), world.running("a", p)) for p in (P0, P1)]
    effects = StateEffects(world.store, str(tmp_path), GROUP, merge)
    counted = [(one, Counted(0, "0-0", "1-0", f"why {one.partition}")) for one in ranges]
    outcome = Committer(world.store, "a", effects, lambda: True).commit(counted, {})
    assert outcome.halted == {
        one: Halted(
            partition=one.partition,
            reason=HaltReason.MALFORMED,
            entry="1-0",
            why=f"why {one.partition}",
        )
        for one in ranges
    }
    assert world.store.committed([P0, P1]) == {P0: START, P1: START}


def test_state_left_behind_by_a_crash_is_brought_forward(world: World, tmp_path: Path) -> None:
    """Done in Redis, dead before LMDB."""
    effects, committer, fence = committed_once(world, tmp_path)
    effects.close()
    behind = PartitionState.open(tmp_path, GROUP, P0)
    behind.take_over()
    behind.clear()
    behind.close()
    one = Range(P0, offset(5), offset(7), fence)
    changes = PartitionChanges([("k", {"amount": 2})])
    assert committer.commit([(one, Counted(2, "7-0"))], {0: changes}).applied == {P0: 2}
    assert values_of(effects._states[P0], ["k"]) == {"k": 7}


def test_fenced_commit_leaves_the_state(world: World, tmp_path: Path) -> None:
    effects, committer, fence = committed_once(world, tmp_path)
    world.let_expire("a", Claim(P0, fence))
    world.join("b")
    world.assign(b={P0})
    world.running("b", P0)
    one = Range(P0, offset(5), offset(7), fence)
    changes = PartitionChanges([("k", {"amount": 2})])
    outcome = committer.commit([(one, Counted(2, "7-0"))], {0: changes})
    assert (outcome.fenced, outcome.applied) == ([one], {})
    state = effects._states[P0]
    assert (state.offset, values_of(state, ["k"])) == (offset(5), {"k": 5})


def test_a_consumer_whose_fence_is_outdated_leaves_the_replica_to_its_agent(
    world: World, tmp_path: Path
) -> None:
    """Paused before its merge; meanwhile its agent learns, and writes the replica."""
    effects, committer, fence = committed_once(world, tmp_path)
    world.let_expire("a", Claim(P0, fence))
    world.join("b")
    world.assign(b={P0})
    world.running("b", P0)
    state = effects._states[P0]
    state._token = bytes(16)  # its agent's
    state.take_over()
    state.clear()
    one = Range(P0, offset(5), offset(7), fence)
    outcome = committer.commit([(one, Counted(2, "7-0"))], {0: PartitionChanges()})
    assert outcome.fenced == [one]
    assert (state.offset, values_of(state, ["k"])) == (START, {})


def test_a_consumer_that_was_replaced_as_writer_takes_the_replica_over_before_it_goes_on(
    world: World, tmp_path: Path
) -> None:
    """Its agent wrote beside it: the commit stands, the replica is brought there later."""
    effects, committer, fence = committed_once(world, tmp_path)
    state = effects._states[P0]
    state._token, ours = bytes(16), state._token
    state.take_over()
    state._token = ours
    one = Range(P0, offset(5), offset(7), fence)
    changes = PartitionChanges([("k", {"amount": 2})])
    outcome = committer.commit([(one, Counted(2, "7-0"))], {0: changes})
    assert outcome.applied == {P0: 2} and list(outcome.failed) == [one]
    one = Range(P0, offset(7), offset(9), fence)
    outcome = committer.commit([(one, Counted(2, "9-0"))], {0: changes})
    assert (outcome.applied, outcome.failed) == ({P0: 2}, {})
    assert (state.offset, values_of(state, ["k"])) == (offset(9), {"k": 9})


def test_a_batch_is_refused_also_when_the_next_owner_has_gone_on(
    world: World, tmp_path: Path
) -> None:
    """What the owner after it committed meanwhile does not hide that it was fenced."""
    _, committer, fence = committed_once(world, tmp_path / "a")
    world.let_expire("a", Claim(P0, fence))
    world.join("b")
    world.assign(b={P0})
    later = world.running("b", P0)
    theirs = StateEffects(world.store, str(tmp_path / "b"), GROUP, merge)
    one = Range(P0, offset(5), offset(7), later)
    Committer(world.store, "b", theirs, lambda: True).commit([(one, Counted(2, "7-0"))], {})
    stale = Range(P0, offset(5), offset(6), fence)
    changes = PartitionChanges([("k", {"amount": 1})])
    outcome = committer.commit([(stale, Counted(1, "6-0"))], {0: changes})
    assert (outcome.fenced, outcome.moved, outcome.applied) == ([stale], [], {})
    assert world.read().meta.refused_commits == 1
    assert world.store.committed([P0]) == {P0: offset(7)}


def test_a_range_that_was_committed_before_is_left(world: World, tmp_path: Path) -> None:
    """Under a fence that holds it is neither refused nor committed again."""
    _, committer, fence = committed_once(world, tmp_path)
    again = Range(P0, START, offset(3), fence)
    outcome = committer.commit([(again, Counted(3, "3-0"))], {})
    assert (outcome.moved, outcome.fenced, outcome.applied) == ([P0], [], {})
    assert world.read().applied[P0].total == 5


class Broken(StateEffects):
    """The replica of P0 cannot be read; that of P1 cannot be written once Redis has the commit."""

    def prepare(self, one: Range, *more: Any) -> Any:
        if one.partition == P0:
            raise StateError("cannot read")
        return super().prepare(one, *more)

    def applied(self, prepared: Any, answer: Any) -> None:
        raise StateError("cannot write")


def test_a_broken_replica_does_not_keep_the_others_from_committing(
    world: World, tmp_path: Path
) -> None:
    ranges = [Range(p, START, offset(5), world.running("a", p)) for p in (P0, P1)]
    effects = Broken(world.store, str(tmp_path), GROUP, merge)
    counted = [(one, Counted(5, "5-0")) for one in ranges]
    outcome = Committer(world.store, "a", effects, lambda: True).commit(counted, {})
    assert outcome.failed == dict(zip(ranges, ["cannot read", "cannot write"], strict=True))
    assert outcome.applied == {P1: 5}
    assert world.store.committed([P0, P1]) == {P0: START, P1: offset(5)}
