"""What can befall the fake server, as it befalls a Redis: lost writes, failover, its clock."""

import re
from dataclasses import replace

import pytest

from agent.store.door import StoreUnavailable
from assignment.errors import InvariantBroken
from assignment.scripts.agent_side import Refusal
from tests.contract.world import P0, World, offset
from tests.fakes import FakeDoor, FakeRedis
from tests.fakes.server import LOADING, MASTERDOWN


@pytest.fixture
def server() -> FakeRedis:
    return FakeRedis()


@pytest.fixture
def world(server: FakeRedis, group_name: str) -> World:
    return World(FakeDoor(server), group_name)


def facts(server: FakeRedis) -> dict[str, str]:
    return dict(re.findall(r"(\w+):(\S*)", server.ask("INFO").decode()))


def test_a_restart_from_an_older_state_lacks_the_writes_since_and_is_another_run(
    world: World, server: FakeRedis, fence: int
) -> None:
    world.commit(P0, fence, offset(0), offset(1))
    before, then = world.read(), server.position
    world.commit(P0, fence, offset(1), offset(2))
    server.restart(then)
    after = world.read()
    assert replace(after, run_id=before.run_id) == before != after
    assert world.acquire("a", P0) == Refusal.NO_INCARNATION


def test_an_older_state_is_reached_over_thousands_of_writes(server: FakeRedis) -> None:
    positions = []
    for n in range(5_000):
        server.ask("XADD", "x", "*", "n", n)
        server.ask("SET", "n", n, "PX", 10)
        server.ask("HINCRBY", "h", "n", 1)
        positions.append(server.position)
        server.advance(3)
    entries = server.entries("x")
    server.restart(positions[4_700])
    assert server.ask("HGET", "h", "n") == b"4701"
    assert server.entries("x") == entries[:4_701]
    assert server.ask("GET", "n") is None  # by the clock, not by when it was written


def test_a_wiped_server_has_nothing_and_another_run(alone: World, server: FakeRedis) -> None:
    run = server.run_id
    server.wipe()
    assert server.run_id != run
    assert server.ask("KEYS", "*") == []
    assert alone.read().meta.settings is None


def test_the_replication_offset_grows_with_every_write_and_with_no_read(
    alone: World, server: FakeRedis
) -> None:
    before = facts(server)
    alone.read()
    assert facts(server) == before
    alone.fence("a", P0)
    after = facts(server)
    assert int(after.pop("master_repl_offset")) > int(before.pop("master_repl_offset"))
    assert after == before


@pytest.mark.parametrize("same_run", [False, True])
def test_a_failover_to_a_lagging_replica_shows_in_replication_even_under_the_old_run(
    world: World, server: FakeRedis, fence: int, same_run: bool
) -> None:
    then, before = server.position, facts(server)
    world.commit(P0, fence, offset(0), offset(1))
    server.fail_over(then, same_run=same_run)
    server.former_ends()
    after = facts(server)
    assert (after["run_id"] == before["run_id"]) is same_run
    assert after["master_replid"] != before["master_replid"] == after["master_replid2"]
    assert after["master_repl_offset"] == before["master_repl_offset"]
    with pytest.raises(StoreUnavailable, match="closed the connection"):
        world.read()
    assert P0 not in world.read().offsets


def test_the_old_primary_answers_readonly_until_the_connection_is_dropped(
    world: World, server: FakeRedis, fence: int
) -> None:
    server.fail_over()
    assert world.read().locks[P0].fence == fence  # it may be read
    with pytest.raises(StoreUnavailable, match="READONLY You can't write against a read only"):
        world.renew("a")
    server.ask("SET", "since", 1)
    assert world.door.ask("GET", "since") == b"1"  # the new one


def test_a_reader_that_was_blocked_over_a_failover_is_told_so(
    world: World, server: FakeRedis
) -> None:
    after = world.store.last_hints(world.keys.calls)
    server.fail_over()
    with pytest.raises((StoreUnavailable, InvariantBroken), match="UNBLOCKED force unblock"):
        world.store.wait_hints(after, 1)
    assert not world.store.wait_hints(after, 1).reasons


@pytest.mark.parametrize("text", [LOADING, MASTERDOWN])
def test_a_server_that_is_not_ready_refuses_for_a_while(
    alone: World, server: FakeRedis, text: str
) -> None:
    server.refuse(text, 500)
    for ask in (alone.read, lambda: alone.door.ask("GET", "x")):
        with pytest.raises(StoreUnavailable, match=text[:10]):
            ask()
    assert facts(server)["role"] == "master"
    server.advance(500)
    assert alone.read().members


def test_expiry_follows_the_clock_and_streams_never_go_back(server: FakeRedis) -> None:
    server.ask("SET", "lock", "a", "PX", 1_000)
    server.advance(-3_600_000)
    first = server.ask("XADD", "x", "*", "n", 1)
    server.advance(-1)
    assert server.ask("XADD", "x", "*", "n", 2) == first.replace(b"-0", b"-1")
    for ms, there in ((0, b"a"), (3_600_001 + 1_000, b"a"), (1, None), (-7_200_000, None)):
        server.advance(ms)  # to its last millisecond; what was seen to be gone stays so
        assert server.ask("GET", "lock") == there
