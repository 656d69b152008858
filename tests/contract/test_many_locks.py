"""Many partitions of one call: what each script writes of them at once is what it would write of
each alone.
"""

import pytest

from assignment.scripts import agent_side
from assignment.scripts.agent_side import Granted, NotTarget
from assignment.scripts.dashboard_side import EvictResult
from assignment.scripts.values import Call
from assignment.types import INCARNATION_STEP, Claim, Held, HeldState, Partition
from tests.contract.world import LONG_MS, P0, World

FIRST = INCARNATION_STEP + 1
MANY = [Partition("flights", n) for n in range(2_300)]  # more than two parts of a script


@pytest.fixture
def many(world: World) -> World:
    """a has acquired all of MANY in one call, b is to have the last ones."""
    world.configure(partitions=len(MANY))
    for member in ("a", "b"):
        world.join(member)
    world.set_incarnation(1)
    world.assign(a=set(MANY), b=set())
    answers = world.run(agent_side.acquire("a", LONG_MS, 1, 1, MANY))
    assert answers == tuple(Granted(p, FIRST, HeldState.RESTORING) for p in MANY)
    return world


def check_whole(world: World, kinds: list[str]) -> None:
    """Every partition has the same story, told by numbers without a gap."""
    events = world.events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for kind, of in zip(kinds, range(0, len(events), len(MANY)), strict=True):
        told = events[of : of + len(MANY)]
        assert {event.kind for event in told} == {kind}
        assert {event.partition for event in told} == set(MANY)
        assert {event.fence for event in told} == {FIRST}


def test_all_are_granted_with_lock_grant_state_and_event(many: World) -> None:
    read, owned = many.read(), many.store.owned("a")
    assert read.locks.keys() == read.grants.keys() == owned.keys() == set(MANY)
    assert {(lock.member_id, lock.fence) for lock in read.locks.values()} == {("a", FIRST)}
    assert {grant.until_ms for grant in read.grants.values()} == {read.grants[P0].until_ms}
    assert set(owned.values()) == {Held(fence=FIRST, state=HeldState.RESTORING)}
    assert read.ends == {"a": read.grants[P0].until_ms}
    check_whole(many, ["acquired"])


def test_all_are_renewed_by_one_call(many: World) -> None:
    claims = [Claim(partition, FIRST) for partition in MANY]
    before = many.read().ends["a"]
    lost = Claim(MANY[1_500], FIRST - 1)
    renewed = many.run(agent_side.renew("a", 2 * LONG_MS, [*claims[:1_500], lost, *claims[1_501:]]))
    assert [n for n, held in enumerate(renewed.held) if not held] == [1_500]
    assert many.read().ends["a"] == before, "one was left out"
    assert all(many.run(agent_side.renew("a", 2 * LONG_MS, claims)).held)
    read = many.read()
    assert {grant.until_ms for grant in read.grants.values()} == {read.ends["a"]}
    assert read.ends["a"] > before


def test_all_are_released_by_one_call(many: World) -> None:
    held = dict.fromkeys(MANY, Held(fence=FIRST, state=HeldState.RESTORING))
    assert many.run(agent_side.release("a", held)) == (True,) * len(MANY)
    read = many.read()
    assert not read.locks and not many.store.owned("a")
    assert {grant.ended for grant in read.grants.values()} == {"released"}
    check_whole(many, ["acquired", "released"])
    assert many.run(agent_side.release("a", held)) == (False,) * len(MANY)
    check_whole(many, ["acquired", "released"])


def test_one_that_is_released_twice_in_a_call_was_released_once(world: World) -> None:
    world.stand(a={P0})
    fence = world.fence("a", P0)
    call = agent_side.release("a", {P0: Held(fence=fence, state=HeldState.RESTORING)})
    twice = Call(call.script, [*call.args, *call.args[1:]], call.read)
    assert world.run(twice) == (True, False)
    assert world.kinds() == ["acquired", "released"]


def test_all_end_with_their_member(many: World) -> None:
    assert many.evict("a") is EvictResult.OK
    read = many.read()
    assert not read.locks and not many.store.owned("a")
    assert {grant.ended for grant in read.grants.values()} == {"expired"}
    check_whole(many, ["acquired", "expired"])


def test_of_some_of_them_only_those_are_answered_and_changed(many: World) -> None:
    many.assign(a=set(MANY[::2]), b=set(MANY[1::2]))
    given = {p: Held(fence=FIRST, state=HeldState.RESTORING) for p in MANY[1::2]}
    asked = given | {P0: Held(fence=FIRST + 1, state=HeldState.RESTORING)}
    done = many.run(agent_side.release("a", asked))
    assert done == (True,) * len(given) + (False,)
    assert many.read().locks.keys() == set(MANY[::2])
    answers = many.run(agent_side.acquire("b", LONG_MS, 1, 1, MANY))
    assert answers[1::2] == tuple(Granted(p, FIRST + 1, HeldState.RESTORING) for p in MANY[1::2])
    assert set(answers[::2]) == {NotTarget(p) for p in MANY[::2]}


def test_whoever_awaits_one_of_them_is_told_once_of_all(many: World) -> None:
    many.assign(a=set(), b=set(MANY))
    many.run(agent_side.acquire("b", LONG_MS, 1, 1, MANY))  # waits for all
    before = many.store.last_hints(many.keys.hints("b"))
    held = dict.fromkeys(MANY, Held(fence=FIRST, state=HeldState.RESTORING))
    many.run(agent_side.release("a", held))
    told = many.door.ask("XRANGE", many.keys.hints("b"), f"({before[many.keys.hints('b')]}", "+")
    assert [fields[1] for _, fields in told] == [b"released"]


def test_what_another_holds_by_now_does_not_end_with_a_member_that_is_said_to_own_it(
    world: World,
) -> None:
    world.stand(a=set(), b={P0})
    fence = world.fence("b", P0)
    world.door.ask("HSET", world.keys.owned("a"), str(P0), f"{fence} running")
    assert world.evict("a") is EvictResult.OK
    assert world.read().locks[P0].member_id == "b"
    assert world.read().grants[P0].ended is None
    assert world.kinds() == ["acquired"]
