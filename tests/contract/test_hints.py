"""A change is told to those whom it concerns, however many members a group has."""

from collections.abc import Mapping

import pytest

from assignment.scripts import dashboard_side
from assignment.scripts.agent_side import claim_turn
from assignment.types import Coordination, Drain, Partition, TargetRow
from tests.contract.world import P0, P1, World

MEMBERS = 24


class Listeners:
    """Members that hear hints as agents do; `deliveries` is how many hints reached how many."""

    def __init__(self, world: World) -> None:
        self.world, self.deliveries = world, 0
        self._after: dict[str, Mapping[str, str]] = {}

    def listen(self, *members: str) -> None:
        keys = self.world.keys
        for member in members:
            self._after[member] = self.world.store.last_hints(keys.hints(member), keys.calls)

    def heard(self) -> dict[str, set[str]]:
        """Since the last time, by those that heard anything."""
        told = {}
        for member, after in self._after.items():
            if self.world.store.last_hints(*after) == after:
                continue  # to wait for nothing takes a server 100 ms
            hints = self.world.store.wait_hints(after, 1)
            self._after[member] = hints.after
            if hints.reasons:
                told[member] = set(hints.reasons)
        self.deliveries += sum(map(len, told.values()))
        return told


def test_a_call_to_all_says_how_many_they_are(world: World, listeners: Listeners) -> None:
    world.configure()
    world.set_incarnation(1)
    for member in ("a", "b", "c"):
        world.join(member)
    keys = world.keys
    of_all = world.store.last_hints(keys.hints("a"), keys.calls)
    world.assign(a={P0}, b={P1}, c=set())
    assert world.store.wait_hints(of_all, 1).members == 3
    own = world.store.last_hints(keys.hints("a"), keys.calls)
    world.run(dashboard_side.set_drain(Drain.LEAVING, ["a"]))
    hints = world.store.wait_hints(own, 1)
    assert hints.reasons and hints.members == 0, "told to this one alone"


@pytest.fixture
def listeners(world: World) -> Listeners:
    return Listeners(world)


def test_members_that_join_one_after_the_other_are_told_as_often_as_targets_change(
    world: World, listeners: Listeners
) -> None:
    """Each takes one partition of one other: O(n) in all, not O(n^2)."""
    partitions = [Partition("flights", n) for n in range(2 * MEMBERS)]
    world.configure(partitions=len(partitions))
    world.set_incarnation(1)
    rows: dict[str, set[Partition]] = {}
    for n in range(MEMBERS):
        member = f"m{n}"
        world.join(member)
        listeners.listen(member)
        rows[member] = {rows["m0"].pop()} if rows else set(partitions)
        world.assign(**rows)
        assert listeners.heard().keys() >= {"m0", member}
    assert listeners.deliveries <= 4 * 2 * MEMBERS, "every one was told: it would be 300"


def test_a_target_is_told_to_whose_partitions_changed_and_to_all_of_another_incarnation(
    world: World, listeners: Listeners
) -> None:
    given = {f"m{n}": {Partition("flights", n)} for n in range(12)}
    world.stand(**given)
    listeners.listen(*given)
    world.assign(**{**given, "m0": given["m1"], "m1": given["m0"]})
    assert listeners.heard() == {"m0": {"target"}, "m1": {"target"}}
    world.set_incarnation(2)
    assert listeners.heard() == {key: {"incarnation"} for key in given}
    world.assign(**given)
    assert listeners.heard() == {key: {"target"} for key in given}


def test_who_waits_for_a_lock_hears_that_it_is_free_and_nobody_else_does(
    world: World, listeners: Listeners
) -> None:
    world.stand(a={P0}, b=set(), c={P1})
    fence = world.running("a", P0)
    world.assign(b={P0}, c={P1})
    listeners.listen("a", "b", "c")
    world.acquire("b", P0)
    assert listeners.heard() == {}
    world.release("a", {P0: fence})
    assert listeners.heard() == {"b": {"released"}}
    world.acquire("b", P0)
    world.leave("b")
    assert listeners.heard() == {}, "nobody waits any more"


def test_a_lock_that_ends_with_its_member_is_told_to_who_waits(
    world: World, listeners: Listeners
) -> None:
    world.stand(a={P0}, b=set())
    world.running("a", P0)
    world.assign(b={P0})
    world.acquire("b", P0)
    listeners.listen("a", "b")
    world.run(dashboard_side.evict("a", 10**15, "member lost"))
    assert listeners.heard() == {"b": {"expired"}}


def test_what_concerns_all_is_told_to_all_once(world: World, listeners: Listeners) -> None:
    world.stand(a={P0}, b={P1})
    listeners.listen("a", "b")
    world.configure(lease_ms=20_000)
    assert listeners.heard() == {key: {"settings"} for key in "ab"}
    world.set_mode(Coordination.CLIENT)
    assert listeners.heard() == {key: {"mode"} for key in "ab"}


def test_a_scale_down_is_told_to_whom_it_takes(world: World, listeners: Listeners) -> None:
    world.stand(a={P0}, b={P1})
    listeners.listen("a", "b")
    world.run(dashboard_side.set_drain(Drain.LEAVING, ["b"]))
    assert listeners.heard() == {"b": {"scale-down"}}
    row = TargetRow(target_epoch=world.due().meta.group_epoch, learning=frozenset({P1}))
    assert world.set_rows(world.read(), {"a": row}) is None
    listeners.heard()
    world.run(dashboard_side.set_drain(Drain.NONE, ["b"]))
    assert listeners.heard() == {"a": {"cancelled"}, "b": {"cancelled"}}, "its learner is dropped"


def test_the_agent_that_computes_hears_of_each_change(world: World, listeners: Listeners) -> None:
    world.stand(a={P0}, b={P1})
    world.set_mode(Coordination.CLIENT)
    world.run(claim_turn("b", 60_000))
    listeners.listen("a", "b")
    world.join("c")
    assert listeners.heard() == {"b": {"join"}}
    world.leave("c")
    assert listeners.heard() == {"b": {"leave"}}


def test_older_agents_and_people_find_every_change_in_control(world: World) -> None:
    world.stand(a={P0}, b=set())
    (end,) = world.store.last_hints(world.keys.control).values()
    fence = world.running("a", P0)
    world.assign(b={P0})
    world.release("a", {P0: fence})
    found = world.store.wait_hints({world.keys.control: end}, 1).reasons
    assert found == {"test", "target", "released"}
