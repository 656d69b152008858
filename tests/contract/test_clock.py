"""A Redis whose clock is behind what it was: ids go on, and nothing stays valid for longer."""

from typing import Any

import pytest

from agent.store.door import ScriptCall
from assignment.scripts import dashboard_side
from assignment.scripts.agent_side import SnapshotRecord
from assignment.scripts.dashboard_side import EvictResult, process_of
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Claim, Offset, speaker_of
from assignment.wire import StreamKeys
from tests.contract.world import LONG_MS, P0, World
from tests.fakes import FakeDoor, FakeRedis
from tests.fakes.commands import COMMANDS

AHEAD_MS = 3_600_000
HIGH = Offset(9_999_999_999_999, 7)  # far above every clock


def keys_of(world: World) -> tuple[str, str]:
    keys = StreamKeys(world.store.group)
    return keys.entries(0), keys.producers(0)


def lift(world: World, to: Offset, restored: Offset) -> int:
    call = ScriptCall("lift", keys_of(world), [str(to), str(restored)])
    return int(world.door.run(call)[0])


def append(world: World, entry_id: str = "*", stream: str = "") -> Offset:
    added = world.door.ask("XADD", stream or keys_of(world)[0], entry_id, "event", "1")
    return Offset.parse(added.decode())


def stream_facts(world: World) -> dict[bytes, Any]:
    info = world.door.ask("XINFO", "STREAM", keys_of(world)[0])
    return dict(zip(info[::2], info[1::2], strict=True))


def test_a_wiped_stream_goes_on_above_what_was_committed_and_nothing_else_is_in_it(
    world: World,
) -> None:
    """Were its making counted, a batch could not be bounded without reading (bound.lua)."""
    assert lift(world, HIGH, HIGH) == 0
    facts = stream_facts(world)
    assert (facts.get(b"entries-added", 0), facts[b"groups"]) == (0, 0)
    assert append(world) > HIGH
    assert stream_facts(world)[b"length"] == 1


def test_entries_that_came_too_early_are_counted(world: World) -> None:
    for seq in range(1, 1_203):
        append(world, f"5-{seq}")
    assert lift(world, Offset(7, 0), Offset(5, 1_200)) == 1_200


def test_a_stream_that_is_above_is_left_alone(world: World) -> None:
    last = append(world, "8-1")
    assert lift(world, Offset(7, 0), Offset(8, 1)) == 0
    assert stream_facts(world)[b"last-generated-id"] == str(last).encode()


def test_a_restored_partitions_changelog_goes_on_above_its_record(world: World) -> None:
    """A copy on disk stands at an entry of the old one."""
    record = SnapshotRecord(url="f", offset=Offset(3, 0), changelog_id=str(HIGH), total=9, fence=1)
    world.restore(1, {P0: record})
    assert append(world, stream=world.keys.changelog(P0)) > HIGH


def test_events_of_the_locks_go_on_above_the_last_one_that_history_has(alone: World) -> None:
    call = dashboard_side.set_incarnation(2, last_event=HIGH)
    assert alone.run(call) == (True, 2)
    alone.fence("a", P0, incarnation=2)
    assert [Offset.parse(event.entry_id) > HIGH for event in alone.events()] == [True]


# --- within a script ------------------------------------------------------------------------------


def test_a_script_happens_at_one_moment_where_time_goes_on_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, group_name: str
) -> None:
    """Before Redis 7 TIME tells the clock of each call, also inside a script."""
    time, asked = COMMANDS[b"TIME"], []

    def later(db: FakeRedis) -> Any:
        asked.append(db.now_ms)
        db.advance(1)
        return time(db)

    monkeypatch.setitem(COMMANDS, b"TIME", later)
    world = World(FakeDoor(FakeRedis()), group_name)
    world.configure()
    world.restart("i", "one")
    world.set_incarnation(1)
    world.report("i", 1, secret="one", able=True)
    world.assign(i={P0})
    world.store.acquire(speaker_of("i", process_of("one")), LONG_MS, 1, 1, [P0])
    assert P0 in world.read().locks
    asked.clear()
    assert world.run(dashboard_side.leave("i", "one", stops=True))
    assert len(asked) == 1
    group = world.read()
    assert group.members["i"].away_since_ms == group.grants[P0].until_ms


# --- set back -------------------------------------------------------------------------------------


@pytest.fixture
def set_back(world: World, fence: int) -> GroupRead:
    """From before the clock was set back by an hour: all that was set by it lies ahead."""
    group = world.read()
    ahead = group.now_ms + AHEAD_MS
    ask, keys = world.door.ask, world.keys
    ask("SET", keys.lock(P0), f"a/{fence}", "PXAT", ahead + LONG_MS)
    ask("HSET", keys.grants, str(P0), f"{fence} a {ahead + LONG_MS} -")
    ask("ZADD", keys.beats, ahead, "a")
    ask("HSET", keys.asked, "a", ahead)
    for name in ("tick_ms", "incarnation_at_ms", "target_at_ms", "due_since_ms"):
        ask("HSET", keys.meta, name, ahead)
    return group


def test_a_tick_and_only_a_tick_caps_what_lies_in_the_future(
    world: World, set_back: GroupRead
) -> None:
    assert world.read(Purpose.LOOK).beats["a"] == set_back.now_ms + AHEAD_MS
    after = world.read(Purpose.TICK)
    lease_ms = 10_000
    assert max(after.beats["a"], after.asked["a"]) <= after.now_ms < set_back.now_ms + AHEAD_MS
    assert after.locks[P0].left_ms <= lease_ms
    assert after.grants[P0].until_ms <= after.now_ms + lease_ms
    assert world.door.ask("PTTL", world.keys.lock(P0)) <= lease_ms
    meta = after.meta
    assert max(meta.tick_ms, meta.target_at_ms, meta.due_since_ms) <= after.now_ms
    assert meta.incarnation_at_ms <= after.now_ms


def test_a_lock_that_was_capped_is_still_its_holders(
    world: World, fence: int, set_back: GroupRead
) -> None:
    world.read(Purpose.TICK)
    assert world.renew("a", Claim(P0, fence)).held == (True,)
    assert world.evict("a") is EvictResult.OK
