"""The dashboard's connections when its server is made a replica: its own, its channel layer's, its
broker's.
"""

import asyncio
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from hiredis import pack_command
from kombu import Connection
from kombu.transport import redis as broker
from pytest_django.fixtures import Settings

from dashboard.demo.embedded_redis import EmbeddedRedis, free_port, wheel_binary
from dashboard.live.awaiting import has_event
from dashboard.live.connection import (
    StoreUnavailable,
    async_client,
    close_async_client,
    reaching_redis,
    sync_client,
)
from dashboard.live.primary import ChannelLayer, follow_as_broker
from tests.dashboard.conftest import Point
from tests.failover import PATIENCE_S, Pair, pair_of, until


@pytest.fixture
def pair(point_at: Point, tmp_path: Path) -> Iterator[Pair]:
    with pair_of(tmp_path, wheel_binary()) as made:
        point_at(made.url)
        yield made
        sync_client().close()


def celerys(url: str) -> Connection:
    """With the keys that its user may have."""
    prefix = f"{settings.REDIS_PREFIX}:celery:"
    return Connection(url, transport_options={"global_keyprefix": prefix})


def written(value: str) -> None:
    with reaching_redis():
        sync_client().set("k", value)


def test_a_server_that_is_read_only_is_left_at_once(pair: Pair) -> None:
    written("old")
    pair.demote()
    with pytest.raises(StoreUnavailable, match="it is a replica"):
        written("new")
    pair.switch()
    written("new")
    assert pair.at_new.get("k") == b"new"


def test_answers_that_are_read_in_bulk_leave_it_too(pair: Pair) -> None:
    connection = sync_client().connection_pool.get_connection()
    commands = [("GET", "k"), ("HGET", "k", "f"), ("SET", "k", "new"), ("GET", "k")]
    packed = b"".join(map(pack_command, commands))
    connection.send_packed_command([packed])
    first, error, *_ = connection.read_responses(len(commands))
    assert (first, type(error)) == (None, type(None))
    connection.send_packed_command([packed])
    first, error, *others = connection.read_responses(len(commands))
    assert (first, others) == (b"new", [b"OK", b"new"])
    assert isinstance(error, redis.ResponseError)
    pair.demote()
    connection.send_packed_command([packed])
    with pytest.raises(redis.ConnectionError, match="it is no primary"):
        connection.read_responses(len(commands))
    assert not connection.is_connected
    sync_client().connection_pool.release(connection)


def test_a_name_that_leads_elsewhere_already_costs_the_caller_nothing(pair: Pair) -> None:
    written("old")
    pair.demote()
    pair.switch()
    written("new")
    assert pair.at_new.get("k") == b"new"


def test_asynchronous_connections_follow(pair: Pair) -> None:
    async def scene() -> None:
        await async_client().set("k", "old")
        pair.demote()
        with pytest.raises(StoreUnavailable), reaching_redis():
            await async_client().set("k", "new")
        pair.switch()
        await async_client().set("k", "new")
        await close_async_client()

    asyncio.run(scene())
    assert pair.at_new.get("k") == b"new"


def test_idle_connections_are_dropped_with_the_one_that_heard_of_it(pair: Pair) -> None:
    """A replica answers reads happily, and with what it has left."""

    async def scene() -> Any:
        await async_client().set("k", "old")
        pair.demote()
        pair.switch()
        await asyncio.to_thread(written, "new")
        pair.at_old.replicaof("NO", "ONE")
        pair.at_old.set("k", "old")
        found = await async_client().get("k")
        await close_async_client()
        return found

    written("old")
    assert asyncio.run(scene()) == b"new"


def test_sockets_hear_of_changes_again(pair: Pair) -> None:
    async def scene() -> Any:
        layer: Any = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add("g", channel)
        pair.demote()
        pair.switch()
        await asyncio.to_thread(written, "new")
        heard = asyncio.create_task(layer.receive(channel))
        async with asyncio.timeout(PATIENCE_S):
            while not heard.done():
                await layer.group_send("g", {"type": "changed"})
                await asyncio.wait([heard], timeout=0.02)
        assert pair.at_new.pubsub_channels() and not pair.at_old.pubsub_channels()
        await layer.flush()
        return heard.result()

    written("old")
    assert async_to_sync(scene)() == {"type": "changed"}


def test_the_broker_calls_it_a_lost_connection_and_goes_on(pair: Pair) -> None:
    """Celery's worker begins anew after a lost connection; any other error ends it."""
    with celerys(pair.url) as broker:
        queue = broker.SimpleQueue("q")
        queue.put("old")
        pair.demote()
        with pytest.raises(broker.connection_errors):
            queue.put("lost")
        pair.switch()
        with suppress(*broker.connection_errors):  # what it held before is gone
            queue.close()
        queue = broker.clone().SimpleQueue("q")
        queue.put("new")
        found = queue.get(timeout=PATIENCE_S)
        found.ack()
        assert found.payload == "new"


def test_a_consumer_of_the_broker_that_waits_hears_of_a_lost_connection(pair: Pair) -> None:
    with celerys(pair.url) as broker, ThreadPoolExecutor(1) as pool:
        queue = broker.SimpleQueue("q")
        queue.put("first")
        queue.get(timeout=PATIENCE_S).ack()
        waiting = pool.submit(queue.get, timeout=PATIENCE_S)
        until(lambda: pair.waits() == 1)
        pair.demote()
        with pytest.raises(broker.connection_errors):
            waiting.result(PATIENCE_S)


def test_a_worker_survives_a_lost_broker_with_messages_unacknowledged(
    own_redis: EmbeddedRedis, point_at: Point
) -> None:
    """As Celery's consumer gives a connection up: it is collected, then closed."""
    follow_as_broker()
    point_at(own_redis.url)
    connection = celerys(own_redis.url)
    queue = connection.SimpleQueue("q")
    queue.put("work")
    queue.get(timeout=PATIENCE_S)
    other = connection.channel()
    connection.SimpleQueue("r", channel=other).consumer.consume()
    with suppress(TimeoutError):
        connection.drain_events(timeout=0.1)  # both begin to listen
    assert queue.channel._in_poll and other._in_poll
    own_redis.kill()
    connection.collect(socket_timeout=1)
    connection.close()
    assert not connection.connected


def test_who_is_cancelled_just_when_its_command_was_sent_ends(
    point_at: Point, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher of a group would wait at Redis for ever, with nobody left to tell."""
    point_at(redis_url)

    async def scene() -> None:
        await async_client().ping()
        (connection,) = async_client().connection_pool._available_connections
        send = connection._send_packed_command

        async def sent(command: Any) -> None:
            await send(command)
            asyncio.get_running_loop().call_soon(waiting.cancel)

        monkeypatch.setattr(connection, "_send_packed_command", sent)
        waiting = asyncio.create_task(has_event("g", "0-0"))
        with pytest.raises(asyncio.CancelledError):
            await waiting
        monkeypatch.undo()
        assert await async_client().echo("the next answer") == b"the next answer"
        await close_async_client()

    asyncio.run(scene())


@pytest.fixture
def cluster_url(tmp_path: Path) -> Iterator[str]:
    """A node in the form of a cluster: it has no slot yet, and would refuse most keys."""
    port = free_port() % 30_000 + 1_024  # its bus has one that is 10,000 above
    words = f"--cluster-enabled yes --bind 127.0.0.1 --port {port}".split()
    client = redis.Redis(port=port)
    with subprocess.Popen(
        [wheel_binary(), *words], cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as node:
        until(partial(answers, client))
        yield f"redis://127.0.0.1:{port}/0"
        client.close()
        node.kill()


def answers(client: "redis.Redis") -> bool:
    with suppress(redis.ConnectionError):
        return bool(client.ping())
    return False


def test_a_node_of_a_cluster_is_refused_with_a_sentence(point_at: Point, cluster_url: str) -> None:
    point_at(cluster_url)
    with pytest.raises(StoreUnavailable, match="it is a node of a Redis Cluster"):
        written("value")


def test_another_server_is_logged_in_to_as_its_own_address_says(
    own_redis: EmbeddedRedis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboard's user is made in its own Redis alone, which does not answer here."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.BROKER_URL = settings.CHANNELS_URL = own_redis.url
    monkeypatch.setattr(broker.Channel, "connection_class", None)
    follow_as_broker()
    with celerys(own_redis.url) as found:
        found.SimpleQueue("q").put("task")
    layer = ChannelLayer(hosts=[own_redis.url])

    async def heard() -> Any:
        channel = await layer.new_channel()
        await layer.send(channel, {"type": "word"})
        try:
            return await layer.receive(channel)
        finally:
            await layer.flush()

    assert async_to_sync(heard)() == {"type": "word"}


async def test_who_is_cancelled_while_it_leaves_a_channel_leaves_the_shared_connection(
    point_at: Point, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sockets of a process hear by one: closed under them, they would miss what is said."""
    point_at(redis_url)
    layer = get_channel_layer()
    staying, leaving = await layer.new_channel(), await layer.new_channel()
    (shard,) = layer._get_layer()._shards
    connection = shard._pubsub.connection
    writer, send = connection._writer, connection._send_packed_command

    async def sent(command: Any) -> None:
        await send(command)
        asyncio.get_running_loop().call_soon(waiting.cancel)

    waiting = asyncio.create_task(layer.receive(leaving))
    await asyncio.sleep(0)
    monkeypatch.setattr(connection, "_send_packed_command", sent)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    monkeypatch.undo()
    await layer.send(staying, {"type": "word"})
    async with asyncio.timeout(PATIENCE_S):
        assert await layer.receive(staying) == {"type": "word"}
    assert connection._writer is writer
    await layer.flush()
    await close_async_client()


async def test_answers_of_a_batch_leave_it_too(pair: Pair) -> None:
    connection = await async_client().connection_pool.get_connection()
    commands = [("GET", "k"), ("HGET", "k", "f"), ("SET", "k", "new"), ("GET", "k")]
    packed = b"".join(map(pack_command, commands))

    async def asked() -> list[Any]:
        await connection.send_packed_command(packed, check_health=False)
        return list(await connection.read_responses(len(commands)))

    try:
        assert await asked() == [None, None, b"OK", b"new"]
        first, error, *others = await asked()
        assert (first, others) == (b"new", [b"OK", b"new"])
        assert isinstance(error, redis.ResponseError)
        pair.demote()
        with pytest.raises(redis.ConnectionError, match="it is no primary"):
            await asked()
        assert not connection.is_connected
    finally:
        await async_client().connection_pool.release(connection)
        await close_async_client()
