"""The dashboard on a Redis Cluster: each group and each partition's events on the node of its slot,
a node that fails, a slot that moves.
"""

import asyncio
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from assignment.slots import slot_of
from assignment.types import Offset, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.actions import groups
from dashboard.agents import rights as kept_rights
from dashboard.evaluation.cluster_servers import Cluster
from dashboard.live import awaiting, connection, glances, health, nodes, routed, settled, watching
from dashboard.live import groups as live_groups
from dashboard.live import rights as live_rights
from dashboard.live.batches import Batches
from dashboard.live.connection import StoreUnavailable, client_at, own_key, sync_client
from dashboard.live.primary import follow_as_broker
from dashboard.live.scripts import script
from dashboard.models import AuditSource, Sample
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, make_group, owners, tick, until
from tests.dashboard.conftest import Point

pytestmark = pytest.mark.django_db
ANN = By("ann", AuditSource.PAGE, "")


@pytest.fixture(autouse=True)
def on_cluster(point_at: Point, redis_url: str, settings: Settings, cluster: Cluster) -> Any:
    point_at(redis_url)
    settings.BROKER_URL = settings.CHANNELS_URL = redis_url
    settings.REDIS_URL = cluster.url
    follow_as_broker()
    yield
    settings.BROKER_URL = settings.CHANNELS_URL = ""
    follow_as_broker()


def on_each_node(cluster: Cluster, prefix: str) -> dict[str, str]:
    """Address of each primary -> a group name that lies there."""
    found: dict[str, str] = {}
    for number in range(1_000):
        name = f"{prefix}-{number}"
        found.setdefault(nodes.node_of(GroupKeys(name).meta), name)
        if len(found) == len(cluster.primaries):
            return found
    raise AssertionError("no name was found for some node")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("GET", "a"), "a"),
        (("EVALSHA", "f00", 2, "a", "b"), "a"),
        (("XINFO STREAM", "a"), "a"),
        (("XREAD", b"COUNT", 1, b"STREAMS", "a", "0"), "a"),
        (("MEMORY USAGE", "a"), "a"),
        (("XGROUP", "CREATE", "a"), "a"),
        (("INFO", "server"), None),
        (("SCRIPT LOAD", "return 1"), None),
    ],
)
def test_the_key_of_a_command_is_found(words: tuple[Any, ...], key: str | None) -> None:
    assert routed.key_in(words) == key


def test_a_pipeline_over_all_nodes_answers_in_order(cluster: Cluster, group_name: str) -> None:
    names = [f"{group_name}:{n}" for n in range(50)]
    assert len({nodes.node_of(name) for name in names}) == 3
    pipe = sync_client().pipeline()
    for n, name in enumerate(names):
        pipe.set(name, n).get(name)
    assert pipe.execute()[1::2] == [str(n).encode() for n in range(50)]
    with pytest.raises(ValueError, match="names no key"):
        sync_client().time()


def test_groups_on_all_nodes_are_ticked_rested_and_shown(cluster: Cluster, group_name: str) -> None:
    made = [make_group(name) for name in on_each_node(cluster, group_name).values()]
    agents = [FakeAgent(group, "a") for group in made]
    for one, group in zip(agents, made, strict=True):
        one.start()
        coordinator.rebalance(group.name)
        one.follow()
    tick()
    for group in made:
        assert owners(group) == dict.fromkeys(range(4), "a")
        assert watching.snapshot(group.name, whole=True).numbers.owned == 4
    rests = {name: one.rest for name, one in coordinator.resting._known.all().items()}
    assert glances.glances(rests).keys() == rests.keys()
    assert health.look().version


def test_a_slot_that_moves_is_followed_by_commands_pipelines_and_heartbeats(
    cluster: Cluster, group_name: str
) -> None:
    keys = GroupKeys(group_name)
    client = sync_client()
    client.hset(keys.meta, "a", 1)
    script_ = script("look")
    batches = Batches()

    async def length() -> Any:
        return (await batches.call(script_, group_name, ["-", "+", "0", "1", "1", "1"]))[0]

    async def moved() -> None:
        await length()
        await asyncio.to_thread(cluster.move_slot, keys.meta)
        await length()
        assert await awaiting.has_event(group_name, "0-0"), "asked of the node that has it now"
        await connection.close_async_client()

    before = nodes.node_of(keys.meta)
    cluster.move_slot(keys.meta)
    assert client.hget(keys.meta, "a") == b"1"
    assert nodes.node_of(keys.meta) != before
    cluster.move_slot(keys.meta)
    assert client.pipeline().hget(keys.meta, "a").hget(keys.meta, "b").execute() == [b"1", None]
    client.delete(keys.meta)
    client.xadd(keys.meta, {"e": 1})
    client.xadd(keys.events, {"e": 1})
    asyncio.run(moved())


def test_a_key_by_key_move_is_passing_trouble_until_it_is_done(
    cluster: Cluster, group_name: str
) -> None:
    """A script sees all of a group or is refused before it begins."""
    group = make_group(group_name)
    with cluster.moving(GroupKeys(group.name).meta) as move:
        move.move(move.waiting()[:1])
        with pytest.raises(StoreUnavailable, match="key by key"):
            coordinator.rebalance(group.name)
    agent = FakeAgent(group, "a")
    agent.start()
    tick()
    assert coordinator.rebalance(group.name).startswith(("epoch", "nothing changed"))


def on_two_nodes(cluster: Cluster, prefix: str) -> tuple[str, str]:
    """Names of groups: on the node that has the dashboard's own keys, and on another."""
    here, named = nodes.node_of(own_key("ticker")), on_each_node(cluster, prefix)
    return named[here], named[next(url for url in named if url != here)]


def test_one_node_away_stops_no_group_of_another_and_its_replica_takes_over(
    cluster: Cluster, group_name: str
) -> None:
    stays, lost = on_two_nodes(cluster, group_name)
    made = {name: make_group(name) for name in (lost, stays)}
    agents = {name: FakeAgent(group, "a") for name, group in made.items()}
    for name, one in agents.items():
        one.start()
        coordinator.rebalance(name)
        one.follow()
    tick()
    before = {name: live_groups.counted(name).incarnation for name in made}
    dead = cluster.primary_of(GroupKeys(lost).meta)
    dead.server.kill()
    assert glances.away(made) == {lost}
    coordinator.tick()
    assert coordinator.rebalance(stays).startswith("nothing changed")
    found = health.look()
    assert found.failing_named == (lost,)
    assert found.away == (f"{dead.address.host}:{dead.address.port}",)
    cluster.await_another(GroupKeys(lost).meta, dead)
    until(lambda: not glances.away(made), seconds=30)
    tick()
    after = {name: live_groups.counted(name).incarnation for name in made}
    assert after == {lost: before[lost] + 1, stays: before[stays]}
    cluster.revive(dead)


def test_an_empty_group_whose_node_is_away_keeps_no_sample_from_others(
    cluster: Cluster, group_name: str
) -> None:
    stays, lost = on_two_nodes(cluster, group_name)
    dead = cluster.primary_of(GroupKeys(lost).meta)
    streams = (f"{group_name}-{number}" for number in range(100))
    lives = next(
        s for s in streams if cluster.primary_of(StreamKeys(s).entries(0)).address != dead.address
    )
    for name in (lost, stays):
        make_group(name, partitions=1, stream=lives)
    tick()
    assert coordinator.sample() == 2
    dead.server.kill()
    assert coordinator.sample() == 1
    assert [row.group.name for row in Sample.objects.all()].count(stays) == 2
    cluster.await_another(GroupKeys(lost).meta, dead)
    cluster.revive(dead)


def test_users_are_on_every_node_and_on_one_that_came_back(
    cluster: Cluster, group_name: str
) -> None:
    group = make_group(group_name)
    made = groups.create_token(group, ANN)
    user = live_rights.user_of(made.token.digest).encode()

    def everywhere() -> bool:
        return all(user in node.ask("ACL", "USERS") for node in cluster.nodes)

    assert everywhere()
    kept_rights.keep()
    node = cluster.primary_of(own_key("ticker"))
    node.ask("ACL", "DELUSER", user)
    node.server.stop()
    cluster.revive(node)
    until(lambda: bool(kept_rights.keep() or everywhere()), seconds=30)
    groups.revoke_token(made.token, ANN)
    assert not any(user in node.ask("ACL", "USERS") for node in cluster.nodes)


def test_a_stream_is_trimmed_by_what_every_replica_knows_was_committed(
    cluster: Cluster, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = make_group(group_name)
    keys, part = StreamKeys(group.stream), Partition(group.stream, 0)
    client_at(keys.entries(0)).xadd(keys.entries(0), {"e": 1}, id="5-0")
    offsets = GroupKeys(group.name).offsets
    sync_client().hset(offsets, str(part), "5-0")

    def known() -> list[str]:
        return settled.committed_of([(group.name, group.stream, 1)])[0]

    assert known() == ["0-0"], "seen for the first time"
    assert known() == ["0-0"], "a moment ago"
    monkeypatch.setattr(settled, "SETTLED_S", 0.0)
    until(lambda: known() == ["5-0"], seconds=30)
    sync_client().hset(offsets, str(part), "7-0")
    until(lambda: known() == ["5-0"], seconds=30)  # as seen before
    before = client_at(offsets).info("replication")["master_replid"]
    seen = settled._seen[group.name, group.stream]
    settled._seen[group.name, group.stream] = seen._replace(server=f"another/{before}")
    assert known() == ["0-0"], "it may have forgotten a commit"
    assert live_groups.last_ids([part, Partition(group.stream, 1)]) == {part: Offset(5, 0)}
    assert slot_of(keys.entries(0)) != slot_of(offsets)
