"""The store's door when its server is made a replica, and its name leads to another one then."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from agent.hints import Hinted, HintListener
from agent.store.door import RedisDoor, ScriptCall, StoreUnavailable
from agent.store.events import EventStore
from agent.store.group import GroupStore
from assignment.errors import Fenced, Trouble, trouble_of
from assignment.scripts import agent_side
from assignment.scripts.agent_side import BatchStart, CommitAnswer, CommitResult
from assignment.types import START, Offset, Partition
from assignment.wire import StreamKeys
from dashboard.demo.embedded_redis import wheel_binary
from tests.conftest import redis_62_binary
from tests.contract.world import P0, World
from tests.failover import Pair, pair_of, until

LPOP = "return redis.call('LPOP', KEYS[1])"


@pytest.fixture(params=["valkey", "redis62"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    binary = wheel_binary() if request.param == "valkey" else redis_62_binary()
    with pair_of(tmp_path, binary) as made:
        yield made


@pytest.fixture
def door(pair: Pair) -> Iterator[RedisDoor]:
    made = RedisDoor(pair.url)
    yield made
    made.close()


def write(producer: str) -> ScriptCall:
    """A producer's first batch."""
    return ScriptCall("append", ("e", "p", "i"), [producer, "1", "", "1", "1", "2", b"n", b"v"])


def outcome(of: Callable[[], Any]) -> list[Any]:
    """Of a call in a thread of its own; empty until it has one."""
    found: list[Any] = []

    def call() -> None:
        try:
            found.append(of())
        except BaseException as error:
            found.append(error)

    threading.Thread(target=call, daemon=True).start()
    return found


# --- a demotion -----------------------------------------------------------------------------------


def test_blocked_readers_of_a_demoted_server_meet_passing_trouble(
    pair: Pair, door: RedisDoor
) -> None:
    one = outcome(lambda: door.wait({"s": "0-0"}, 20_000, 1))
    any_one = outcome(lambda: door.wait_any({"s": "0-0", "t": "0-0"}, 20_000))
    until(lambda: pair.waits() == 2)
    pair.demote()
    until(lambda: one and any_one)
    assert [type(found) for found in one + any_one] == [StoreUnavailable] * 2


@pytest.mark.parametrize(
    "written",
    [
        lambda door, value: door.run(write(value)),
        lambda door, value: door.run_many([write(value)]),
        lambda door, value: door.ask_together([("HSET", "h", "f", value), ("PEXPIRE", "h", 1)]),
    ],
)
def test_a_server_that_is_read_only_is_left_and_its_name_resolved_again(
    written: Callable[[RedisDoor, str], Any], pair: Pair, door: RedisDoor
) -> None:
    written(door, "first")
    pair.demote()
    with pytest.raises(StoreUnavailable):
        written(door, "second")
    with pytest.raises(StoreUnavailable, match="it is a replica"):
        written(door, "second")
    pair.switch()
    assert written(door, "second")


def test_one_refused_write_takes_the_waiting_connections_along(pair: Pair, door: RedisDoor) -> None:
    """A replica answers reads happily: what waits there would wait for what never comes."""
    assert not door.wait({"s": "0-0"}, 1, 1)
    door.run(write("first"))
    pair.at_new.xadd("s", {"n": "v"}, id="1-0")
    pair.demote()
    with pytest.raises(StoreUnavailable):
        door.run(write("second"))
    pair.switch()
    pair.at_old.replicaof("NO", "ONE")
    pair.at_old.delete("s")
    ((_, entries),) = door.wait({"s": "0-0"}, 1, 1)
    assert entries[0][0] == b"1-0"


def test_a_reader_is_led_to_no_replica(pair: Pair, door: RedisDoor) -> None:
    pair.demote()
    with pytest.raises(StoreUnavailable, match="it is a replica"):
        door.wait({"s": "0-0"}, 1, 1)
    pair.switch()
    assert not door.wait({"s": "0-0"}, 1, 1)


def test_a_replica_without_its_primary_is_left_by_readers_too(pair: Pair, door: RedisDoor) -> None:
    door.ask("HGET", "h", "f")
    pair.lose_primary()
    with pytest.raises(StoreUnavailable, match="refuses"):
        door.ask("HGET", "h", "f")
    pair.switch()
    assert door.ask("HGET", "h", "f") is None


def replication_id(client: Any) -> str:
    return str(client.info("replication")["master_replid"])


def test_a_task_reads_only_from_the_server_that_its_batch_was_planned_from(
    pair: Pair, door: RedisDoor, group_name: str
) -> None:
    partition, events = Partition(group_name, 0), EventStore(door)
    key = StreamKeys(group_name).entries(0)
    old, new = replication_id(pair.at_old), replication_id(pair.at_new)
    pair.at_old.xadd(key, {"n": "v"}, id="1-0")
    for number in (1, 2):
        pair.at_new.xadd(key, {"n": "v"}, id=f"{number}-0")
    assert len(list(events.read(partition, START, Offset(1, 0), old))) == 1
    with pytest.raises(Fenced):
        list(events.read(partition, START, Offset(2, 0), new))
    pair.at_old.replicaof("127.0.0.1", "1")
    pair.switch()
    assert [len(chunk) for chunk in events.read(partition, START, Offset(2, 0), new)] == [2]
    with pytest.raises(Fenced):
        list(events.read(partition, START, Offset(1, 0), old))


def test_a_task_believes_no_replica(pair: Pair, door: RedisDoor, group_name: str) -> None:
    partition, events = Partition(group_name, 0), EventStore(door)
    events.demand(old := replication_id(pair.at_old))
    pair.at_old.replicaof("127.0.0.1", "1")
    with pytest.raises(StoreUnavailable, match="replica"):
        list(events.read(partition, START, Offset(1, 0), old))


def test_a_batch_is_committed_only_where_it_was_planned(
    pair: Pair, door: RedisDoor, group_name: str
) -> None:
    """Its events are not in the server that took over; nor do they come back."""
    world = World(door, group_name)
    world.stand(a={P0})
    world.running("a", P0)
    pair.at_new.config_set("masterauth", pair.old.password)
    pair.at_new.replicaof("127.0.0.1", str(pair.old.port))
    until(lambda: pair.at_new.info("replication")["master_link_status"] == "up")
    pair.at_new.replicaof("NO", "ONE")
    (planned,) = world.store.run(agent_side.next_batch("a"))
    pair.at_old.replicaof("127.0.0.1", "1")
    pair.switch()
    with pytest.raises(StoreUnavailable):
        commit(world, planned)
    assert commit(world, planned).result is CommitResult.MOVED
    assert world.store.committed([P0]) == {P0: START}
    (again,) = world.store.run(agent_side.next_batch("a"))
    assert replace(again, replication_id="") == replace(planned, replication_id="")
    assert commit(world, again).result is CommitResult.DONE


def commit(world: World, planned: BatchStart) -> CommitAnswer:
    of = planned.replication_id
    return world.commit(P0, planned.fence, START, Offset(1, 0), replication_id=of)


def test_a_planner_leaves_a_server_that_was_made_a_replica(
    pair: Pair, door: RedisDoor, group_name: str
) -> None:
    world = World(door, group_name)
    world.stand(a={P0})
    world.running("a", P0)
    assert world.store.run(agent_side.next_batch("a"))
    pair.at_old.replicaof("127.0.0.1", "1")
    with pytest.raises(StoreUnavailable, match="refuses"):
        world.store.run(agent_side.next_batch("a"))


def test_hints_are_heard_again_after_a_demotion(
    pair: Pair, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.hints.AWAY_S", 0.01)
    store = GroupStore.connect(pair.url, group_name)
    heard: list[Hinted | BaseException] = []
    listener = HintListener(store, "a", heard.append, lambda _: None)
    listener.start()
    until(lambda: pair.waits() == 1)
    pair.demote()
    pair.switch()
    until(lambda: len(heard) == 2)  # it listens from the end of the new one's stream
    for number, stream in enumerate((store.keys.calls, store.keys.hints("a")), 3):
        pair.at_new.xadd(stream, {"reason": "target"})
        until(lambda number=number: len(heard) == number)
    listener.close()
    assert all(isinstance(one, Hinted) for one in heard)


# --- what answers mean ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, key: client.eval("return redis.call('NOSUCH')", 0),
        lambda client, key: client.eval("return nonsense.at.all", 0),
        lambda client, key: client.eval("not Lua", 0),
        lambda client, key: client.execute_command("NOSUCH"),
        lambda client, key: client.execute_command("HGET", key),
        lambda client, key: client.execute_command("XRANGE", key, "no-id", "+"),
        lambda client, key: client.execute_command("SET", key, "1", "NO", "SUCH"),
        lambda client, key: (client.set(key, "x"), client.hget(key, "f")),
        lambda client, key: (client.set(key, "x"), client.eval(LPOP, 1, key)),
    ],
)
def test_what_we_asked_wrongly_stays_a_bug(
    ask: Callable[[Any, str], Any], valkey_server: Any, redis_62_server: Any, group_name: str
) -> None:
    for server in (valkey_server, redis_62_server):
        with redis.Redis.from_url(server.url) as client, pytest.raises(redis.ResponseError) as told:
            ask(client, group_name)
        assert trouble_of(str(told.value), told.value.status_code) is Trouble.BUG
