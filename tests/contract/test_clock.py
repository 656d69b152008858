"""A Redis whose clock is behind what it was: ids go on, and nothing stays valid for longer."""

from typing import Any

from agent.store.door import ScriptCall
from assignment.scripts import agent_side, dashboard_side
from assignment.scripts.agent_side import SnapshotRecord
from assignment.scripts.group_read import Purpose
from assignment.types import Claim, Offset
from assignment.wire import StreamKeys
from tests.contract.world import LONG_MS, P0, World

AHEAD_MS = 3_600_000
HIGH = Offset(9_999_999_999_999, 7)  # far above every clock


def entries_of(world: World) -> str:
    return StreamKeys(world.store.group).entries(0)


def keys_of(world: World) -> tuple[str, str]:
    return entries_of(world), StreamKeys(world.store.group).producers(0)


def lift(world: World, to: Offset, restored: Offset) -> int:
    call = ScriptCall("lift", keys_of(world), [str(to), str(restored)])
    return int(world.door.run(call)[0])


def append(world: World, entry_id: str = "*") -> Offset:
    return Offset.parse(world.door.ask("XADD", entries_of(world), entry_id, "event", "1").decode())


def test_a_wiped_stream_goes_on_above_what_was_committed(world: World) -> None:
    assert lift(world, HIGH, HIGH) == 0
    assert append(world) > HIGH
    assert world.door.ask("XLEN", entries_of(world)) == 1


def test_making_a_stream_leaves_no_entry_counted(world: World) -> None:
    """Else a batch could not be bounded without reading (bound.lua)."""
    lift(world, HIGH, HIGH)
    info = world.door.ask("XINFO", "STREAM", entries_of(world))
    facts = dict(zip(info[::2], info[1::2], strict=True))
    assert facts.get(b"entries-added", 0) == 0
    assert facts[b"groups"] == 0


def test_entries_that_came_too_early_are_counted(world: World) -> None:
    for seq in range(1, 1_203):
        append(world, f"5-{seq}")
    assert lift(world, Offset(7, 0), Offset(5, 1_200)) == 1_200


def test_a_stream_that_is_above_is_left_alone(world: World) -> None:
    last = append(world, "8-1")
    assert lift(world, Offset(7, 0), Offset(8, 1)) == 0
    raw = world.door.ask("XINFO", "STREAM", entries_of(world))
    assert dict(zip(raw[::2], raw[1::2], strict=True))[b"last-generated-id"] == str(last).encode()


def test_a_restored_partitions_changelog_goes_on_above_its_record(world: World) -> None:
    """A copy on disk stands at an entry of the old one."""
    record = SnapshotRecord(url="f", offset=Offset(3, 0), changelog_id=str(HIGH), total=9, fence=1)
    world.restore(1, {P0: record})
    changelog = world.keys.changelog(P0)
    assert Offset.parse(world.door.ask("XADD", changelog, "*", "a", "b").decode()) > HIGH


def test_events_of_the_locks_go_on_above_the_last_one_that_history_has(world: World) -> None:
    world.stand(a={P0})
    call = dashboard_side.set_incarnation(2, last_event=HIGH)
    assert world.run(call) == (True, 2)
    world.fence("a", P0, incarnation=2)
    assert [Offset.parse(event.entry_id) > HIGH for event in world.events()] == [True]


# --- set back -------------------------------------------------------------------------------------


def in_the_future(world: World) -> dict[str, Any]:
    """As after the clock was set back by an hour: all that was set by it lies ahead."""
    now, group = world.read().now_ms, world.read()
    ahead = now + AHEAD_MS
    fence = group.locks[P0].fence
    ask, keys = world.door.ask, world.keys
    ask("SET", keys.lock(P0), f"a/{fence}", "PXAT", ahead + LONG_MS)
    ask("HSET", keys.grants, str(P0), f"{fence} a {ahead + LONG_MS} -")
    ask("ZADD", keys.beats, ahead, "a")
    ask("HSET", keys.asked, "a", ahead)
    for name in ("tick_ms", "target_at_ms", "due_since_ms"):
        ask("HSET", keys.meta, name, ahead)
    return {"now": now, "fence": fence}


def test_a_tick_caps_what_lies_in_the_future(world: World) -> None:
    world.stand(a={P0})
    world.running("a", P0)
    before = in_the_future(world)
    after = world.read(Purpose.TICK)
    lease_ms = 10_000
    assert after.beats["a"] <= after.now_ms < before["now"] + AHEAD_MS
    assert after.asked["a"] <= after.now_ms
    assert after.locks[P0].left_ms <= lease_ms
    assert after.grants[P0].until_ms <= after.now_ms + lease_ms
    assert world.door.ask("PTTL", world.keys.lock(P0)) <= lease_ms
    meta = after.meta
    assert max(meta.tick_ms, meta.target_at_ms, meta.due_since_ms) <= after.now_ms


def test_a_lock_that_was_capped_is_still_its_holders(world: World) -> None:
    world.stand(a={P0})
    world.running("a", P0)
    fence = in_the_future(world)["fence"]
    world.read(Purpose.TICK)
    assert world.store.run(agent_side.renew("a", LONG_MS, [Claim(P0, fence)])).held == (True,)
    assert world.evict("a", world.read().beats["a"]).value == "ok"


def test_only_a_tick_caps(world: World) -> None:
    world.stand(a={P0})
    world.running("a", P0)
    in_the_future(world)
    assert world.read(Purpose.LOOK).beats["a"] > world.read().now_ms
