"""The door to a Redis Cluster: which node is asked, moved slots, nodes that fail."""

import itertools
import re
import signal
import threading
from collections.abc import Iterator

import pytest
import redis

from agent.store.cluster import ClusterDoor, _is_settled, door_to
from agent.store.door import RedisDoor, ScriptCall, StoreUnavailable, Timeouts
from agent.store.events import Append, AppendResult, EventStore, Packed
from assignment.errors import InvalidInput
from assignment.lua import is_of_stream, names, script
from assignment.scripts import agent_side
from assignment.slots import SLOTS, Topology
from assignment.types import START, Partition
from assignment.wire import StreamKeys
from dashboard.evaluation.cluster_servers import Cluster
from tests.contract.world import P0, World
from tests.failover import until

PATIENT = Timeouts(connect_s=5.0, answer_s=5.0)
REFUSED = re.compile("refuses: .*(TRYAGAIN|ASK|rehashing|[0-9]+ 127.0.0.1)", re.IGNORECASE)
ONE = [Packed((b"lines", b"x"), 1, 1)]


@pytest.fixture
def door(cluster: Cluster) -> Iterator[ClusterDoor]:
    made = ClusterDoor(cluster.url, PATIENT)
    yield made
    made.close()


@pytest.fixture
def world(door: ClusterDoor, group_name: str) -> World:
    """Member `a` runs P0."""
    world = World(door, group_name)
    world.stand(a={P0})
    world.running("a", P0)
    return world


def retried(ask: object) -> None:
    def succeeds() -> bool:
        try:
            ask()  # type: ignore[operator]
        except StoreUnavailable:
            return False
        return True

    until(succeeds)


def entries(stream: str, *numbers: int) -> list[str]:
    return [StreamKeys(stream).entries(number) for number in numbers]


# --- where it is ----------------------------------------------------------------------------------


def test_partitions_of_one_stream_are_appended_to_and_read_on_their_nodes(
    cluster: Cluster, door: ClusterDoor, group_name: str
) -> None:
    events, numbers = EventStore(door), range(8)
    events.ensure(group_name, len(numbers))
    keys = entries(group_name, *numbers)
    assert len({cluster.primary_of(key).id for key in keys}) > 1
    partitions = [Partition(group_name, number) for number in numbers]
    batches = [Append(partition, 1, ONE) for partition in partitions]
    assert set(events.append("p", batches)) == {AppendResult.DONE}
    assert set(events.append("p", batches)) == {AppendResult.ALREADY}
    bounds = events.bounds([(partition, START) for partition in partitions], 10, 1_000)
    assert [bound.total for bound in bounds] == [1] * len(numbers)
    for partition, bound in zip(partitions, bounds, strict=True):
        (chunk,) = events.read(partition, START, bound.to_offset, "id of the group's node")
        assert len(chunk) == 1


def test_whoever_waits_for_many_partitions_hears_of_the_first_entry_anywhere(
    door: ClusterDoor, group_name: str
) -> None:
    events = EventStore(door)
    ends = [(Partition(group_name, number), START) for number in range(8)]
    heard = threading.Event()

    def wait() -> None:
        events.wait(ends, 20_000)
        heard.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not heard.wait(0.1)
    events.append("p", [Append(ends[5][0], 1, ONE)])
    assert heard.wait(10)
    assert door.wait_any(dict.fromkeys(entries(group_name, 1, 2), "0-0"), 1) == []


def test_an_address_says_what_is_there(cluster: Cluster, redis_url: str) -> None:
    plain, with_cluster = redis_url, redis_url.replace("redis://", "redis+cluster://")
    node = f"redis://:{cluster.nodes[0].server.password}@127.0.0.1:{cluster.nodes[0].address.port}"
    assert isinstance(door_to(plain), RedisDoor)
    with pytest.raises(StoreUnavailable, match=r"begins with redis\+cluster://"):
        door_to(node, PATIENT).ask("HGET", "k", "f")
    with pytest.raises(StoreUnavailable, match="it is no node of a Redis Cluster"):
        door_to(with_cluster, PATIENT).ask("HGET", "k", "f")
    with pytest.raises(InvalidInput):
        door_to("redis+cluster://host:port")
    assert door_to(cluster.url, PATIENT).is_appendonly() is True


def test_a_replica_that_is_named_alone_tells_where_the_others_are(
    cluster: Cluster, group_name: str
) -> None:
    replica = next(node for node in cluster.nodes if node not in cluster.primaries)
    password, port = replica.server.password, replica.address.port
    door = door_to(f"redis+cluster://:{password}@127.0.0.1:{port}", PATIENT)
    assert door.ask("HSET", group_name, "f", "v") == 1
    assert door.ask("HGET", group_name, "f") == b"v"
    door.close()


def test_a_slot_that_nobody_has_is_passing_trouble_and_asked_for_anew(
    door: ClusterDoor, group_name: str
) -> None:
    """As one node saw it for a moment."""
    door._topology = Topology((None,) * SLOTS, ())
    with pytest.raises(StoreUnavailable, match="no node of the Redis Cluster"):
        door.ask("HGET", group_name, "f")
    assert door.ask("HGET", group_name, "f") is None


# --- a slot is moved ------------------------------------------------------------------------------


def test_a_slot_that_was_moved_is_followed_and_counts_as_another_server(
    cluster: Cluster, door: ClusterDoor, world: World
) -> None:
    """Nobody can know whether its new node has all: so the group has a new incarnation first."""
    before = world.next_batch()
    cluster.move_slot(world.keys.meta)
    (after,) = world.next_batch()
    assert after.fence == before[0].fence and after.replication_id != before[0].replication_id
    assert world.acquire("a", P0) is agent_side.Refusal.NO_INCARNATION
    assert world.set_incarnation(2)[0]
    assert world.fence("a", P0, incarnation=2) > after.fence


def test_whoever_waits_for_hints_hears_them_from_the_node_that_has_them_now(
    cluster: Cluster, world: World
) -> None:
    after, heard = world.store.last_hints(world.keys.calls), list[frozenset[str]]()

    def wait() -> None:
        heard.append(world.store.wait_hints(after, 20_000).reasons)

    threading.Thread(target=wait, daemon=True).start()
    source = cluster.primary_of(world.keys.meta)
    until(lambda: source.client.info("clients")["blocked_clients"] > 0)
    cluster.move_slot(world.keys.meta)
    until(lambda: source.client.info("clients")["blocked_clients"] == 0)
    assert world.set_incarnation(2)[0]
    until(lambda: heard)
    assert heard == [{"incarnation"}]


def test_no_script_of_a_group_begins_while_its_slot_is_moved_key_by_key(
    cluster: Cluster, door: ClusterDoor, world: World
) -> None:
    """Before the first key went, half way, and before the nodes are told: refused, not half done;
    then all is as it was.
    """
    (before,) = world.next_batch()
    every = [ScriptCall(name, world.keys.of_script, ["x"] * 20) for name in of_groups()]

    def all_are_refused() -> None:
        for call in every:
            with pytest.raises(StoreUnavailable, match=REFUSED):
                door.run(call)

    with cluster.moving(world.keys.meta) as move:
        all_are_refused()
        move.move([world.keys.meta])
        all_are_refused()
        move.move([world.keys.owned("a"), world.keys.grants])
        all_are_refused()
        for read in (world.store.meta, lambda: world.store.owned("a")):
            with pytest.raises(StoreUnavailable, match=REFUSED):
                read()
    (after,) = world.next_batch()
    assert after.fence == before.fence
    assert world.read().locks[P0].fence == after.fence


def test_whoever_follows_such_a_move_to_its_target_is_refused_there_too(
    cluster: Cluster, world: World
) -> None:
    """As libraries do, with ASKING."""
    with cluster.moving(world.keys.meta) as move:
        move.move([world.keys.meta])
        text = script("next_batch")
        with pytest.raises(redis.exceptions.TryAgainError):
            move.ask_target("EVAL", text, 2, *world.keys.of_script, "a")


def of_groups() -> list[str]:
    return [name for name in names() if not is_of_stream(name)]


# --- a node fails ---------------------------------------------------------------------------------


def test_a_primary_that_failed_is_replaced_by_its_replica_with_all_that_was_settled(
    cluster: Cluster, door: ClusterDoor, world: World, group_name: str
) -> None:
    events, partition = EventStore(door), Partition(group_name, 0)
    key = StreamKeys(group_name).entries(0)
    for sequence in range(1, 200):
        events.append("p", [Append(partition, sequence, ONE)])
    last = events.last_offset(partition)
    events.settle([partition])
    dead = cluster.fail_over(key)
    try:
        retried(lambda: events.last_offset(partition))
        assert events.last_offset(partition) >= last
        assert events.append("p", [Append(partition, 200, ONE)]) == [AppendResult.DONE]
        assert events.last_offset(partition) > last
    finally:
        cluster.revive(dead)


def test_what_no_replica_has_is_not_settled_unless_none_could_take_over(
    cluster: Cluster, door: ClusterDoor, group_name: str
) -> None:
    events, partition = EventStore(door), Partition(group_name, 0)
    with cluster.without_replicas(StreamKeys(group_name).entries(0)):
        events.append("p", [Append(partition, 1, ONE)])
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="no replica has"):
                events.settle([partition])
        cluster.find_failed()
        retried(lambda: events.settle([partition]))
    retried(lambda: events.settle([partition]))


def test_what_was_moved_meanwhile_is_not_settled_where_it_was(
    cluster: Cluster, door: ClusterDoor, group_name: str
) -> None:
    events, partition = EventStore(door), Partition(group_name, 0)
    events.append("p", [Append(partition, 1, ONE)])
    cluster.move_slot(StreamKeys(group_name).entries(0))
    with pytest.raises(StoreUnavailable, match="refuses"):
        events.settle([partition])
    retried(lambda: events.settle([partition]))


def test_a_primary_that_is_none_any_more_settles_nothing(
    cluster: Cluster, door: ClusterDoor, group_name: str
) -> None:
    """Of what was read there its successor may lack the last."""
    replica = next(node for node in cluster.nodes if node not in cluster.primaries)
    node = door._door_of(replica.address)
    with pytest.raises(StoreUnavailable, match="primary no more"):
        _is_settled(node, ())


def test_a_node_that_hangs_keeps_nobody_from_the_others(cluster: Cluster, group_name: str) -> None:
    """Whoever did not answer is not the one that is asked where the others are."""
    hangs, other, *_ = cluster.primaries
    keys = (f"{group_name}{number}" for number in itertools.count())
    here, there = (
        next(key for key in keys if cluster.primary_of(key) is node) for node in (hangs, other)
    )
    password, port = hangs.server.password, hangs.address.port
    impatient = Timeouts(connect_s=0.5, answer_s=0.5)
    door = door_to(f"redis+cluster://:{password}@127.0.0.1:{port}", impatient)
    assert door.ask("HSET", there, "f", "v") == 1
    hangs.signal(signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            door.ask("HGET", here, "f")
        retried(lambda: door.ask("HGET", there, "f"))
        retried(lambda: door.ask("HSET", here, "f", "v"))
    finally:
        hangs.signal(signal.SIGCONT)
        cluster.wait_until_whole()
        door.close()
