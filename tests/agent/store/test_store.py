"""The store's door on real servers: what goes wrong there, and what a caller hears of it."""

import os
import signal
import threading
from pathlib import Path

import pytest
import redis

from agent.store.door import RedisDoor, StoreUnavailable, Timeouts
from agent.store.events import EventStore
from agent.store.group import GroupStore
from assignment.errors import InvalidInput, InvariantBroken
from assignment.scripts import agent_side
from assignment.scripts.agent_side import CommitResult, Granted, Refusal
from assignment.types import INCARNATION_STEP, START, Claim, Offset, Partition
from assignment.wire import ConsumerHealth, StreamKeys
from dashboard.demo.embedded_redis import EmbeddedRedis
from tests.contract.world import LONG_MS, P0, P1, World, commit_of, offset

SHORT = Timeouts(connect_s=0.3, answer_s=0.3)


def test_a_redis_that_is_away_is_said_so_and_the_store_goes_on_when_it_is_back(
    own_redis: EmbeddedRedis, own_world: World
) -> None:
    world = own_world
    world.stand(a={P0})
    fence = world.running("a", P0)
    request = commit_of(P0, fence, START, offset(1))
    own_redis.kill()
    for ask in (
        lambda: world.renew("a", Claim(P0, fence)),
        world.next_batch,
        lambda: world.store.commit_many([request]),
        lambda: world.store.target("a"),
        lambda: world.store.wait_hints({world.keys.calls: "0-0"}, 10),
        lambda: world.store.owned("a"),
    ):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            ask()
    own_redis.start()
    assert world.renew("a", Claim(P0, fence)).held == (True,)
    assert world.next_batch()[0].fence == fence
    assert world.store.commit_many([request])[0].result is CommitResult.DONE


def test_after_a_restart_nothing_is_granted_until_the_incarnation_is_raised(
    own_redis: EmbeddedRedis, own_world: World
) -> None:
    world = own_world
    world.stand(a={P0, P1})
    fence = world.running("a", P0)
    own_redis.kill()
    own_redis.start()
    assert world.acquire("a", P1) is Refusal.NO_INCARNATION
    assert world.renew("a", Claim(P0, fence)).held == (True,)
    assert world.commit(P0, fence, START, offset(1)).applied
    assert world.set_incarnation(2) == (True, 2)
    assert world.fence("a", P1, incarnation=2) == 2 * INCARNATION_STEP + 1
    assert world.fence("a", P0, incarnation=2) == 2 * INCARNATION_STEP + 1


def test_a_redis_that_hangs_is_given_up_within_the_timeout(
    own_redis: EmbeddedRedis, group_name: str
) -> None:
    store = GroupStore.connect(own_redis.url, group_name, SHORT)
    assert store.last_hints("calls") == {"calls": "0-0"}
    assert own_redis.pid
    os.kill(own_redis.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            store.run(agent_side.renew("a", LONG_MS, []))
    finally:
        os.kill(own_redis.pid, signal.SIGCONT)


def test_scripts_that_redis_has_forgotten_are_sent_again(own_world: World) -> None:
    world = own_world
    world.stand(a={P0, P1})
    requests = [commit_of(p, world.running("a", p), START, offset(1)) for p in (P0, P1)]
    world.door.ask("SCRIPT", "FLUSH")
    answers = world.store.commit_many(requests)
    assert [a.result for a in answers] == [CommitResult.DONE] * 2
    world.door.ask("SCRIPT", "FLUSH")
    assert len(world.next_batch()) == 2


def test_a_redis_that_is_full_changes_nothing_and_is_asked_again(own_world: World) -> None:
    world = own_world
    world.stand(a={P0, P1})
    fence = world.running("a", P0)
    world.door.ask("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        world.commit(P0, fence, START, offset(1))
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        world.store.commit_many([commit_of(P0, fence, START, offset(1))])
    world.door.ask("CONFIG", "SET", "maxmemory", "0")
    group = world.read()
    assert (group.offsets, group.applied) == ({}, {})
    assert world.commit(P0, fence, START, offset(1)).result is CommitResult.DONE


def test_a_replica_refuses_writes_as_passing(own_world: World) -> None:
    world = own_world
    world.stand(a={P0})
    world.door.ask("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(StoreUnavailable):
        world.renew("a")


def test_a_key_of_another_kind_is_a_bug_not_an_outage(own_world: World) -> None:
    world = own_world
    world.stand(a={P0})
    world.door.ask("SET", world.keys.owned("a"), "x")
    with pytest.raises(InvariantBroken, match="WRONGTYPE"):
        world.store.owned("a")


# --- the connection -------------------------------------------------------------------------------


def test_a_wrong_password_is_named_and_never_shown(own_redis: EmbeddedRedis) -> None:
    url = own_redis.url.replace(own_redis.password, "guessed")
    with pytest.raises(InvalidInput, match="refuses the login") as caught:
        RedisDoor(url).is_appendonly()
    assert "guessed" not in str(caught.value)


@pytest.mark.parametrize(
    ("away", "back"),
    [
        (("CONFIG", "SET", "requirepass", "other"), ("CONFIG", "SET", "requirepass", "{mine}")),
        (("ACL", "SETUSER", "default", "-xrevrange"), ("ACL", "SETUSER", "default", "+xrevrange")),
    ],
    ids=["login", "command"],
)
def test_one_that_let_us_in_may_do_so_again(
    own_redis: EmbeddedRedis, away: tuple[str, ...], back: tuple[str, ...]
) -> None:
    store = GroupStore.connect(own_redis.url, "g", SHORT)
    assert store.last_hints("calls") == {"calls": "0-0"}
    with redis.Redis.from_url(own_redis.url) as operator:
        operator.execute_command(*away)
        operator.client_kill_filter(_type="normal", skipme=True)
        with pytest.raises(StoreUnavailable):  # the connection was killed
            store.last_hints("calls")
        with pytest.raises(StoreUnavailable, match="refuses the login, or does not allow it"):
            store.last_hints("calls")
        operator.execute_command(*(word.format(mine=own_redis.password) for word in back))
    assert store.last_hints("calls") == {"calls": "0-0"}


def test_a_password_is_in_no_error(own_redis: EmbeddedRedis) -> None:
    store = GroupStore.connect(own_redis.url, "g", SHORT)
    own_redis.stop()
    with pytest.raises(StoreUnavailable) as caught:
        store.last_hints("calls")
    assert own_redis.password not in str(caught.value)
    assert str(own_redis.port) in str(caught.value)


def test_a_server_tells_that_it_is_new_enough_and_appends(
    valkey_server: EmbeddedRedis, redis_62_server: EmbeddedRedis
) -> None:
    for server in (valkey_server, redis_62_server):
        assert RedisDoor(server.url).is_appendonly() is True


def test_appendonly_that_is_off_is_seen(own_redis: EmbeddedRedis) -> None:
    door = RedisDoor(own_redis.url)
    door.ask("CONFIG", "SET", "appendonly", "no")
    assert door.is_appendonly() is False


def test_a_redis_that_is_too_old_is_named_with_its_version(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = RedisDoor(own_redis.url)
    info = b"# Server\r\nredis_version:5.0.14\r\nrun_id:0\r\n"
    monkeypatch.setattr(door, "ask", lambda *command: info)
    with pytest.raises(InvalidInput, match=r"version 5\.0\.14; Evenkeel needs 6\.2 or later"):
        door.is_appendonly()


def test_a_user_limited_to_the_groups_keys_can_do_everything(
    own_redis: EmbeddedRedis, own_world: World
) -> None:
    """`INFO` is asked by the scripts themselves: who runs them must be allowed to."""
    world = own_world
    rights = ("~ek:*", "+@all", "-@dangerous", "+info", "+config|get")
    world.door.ask("ACL", "SETUSER", "agent", "on", ">pw", *rights)
    limited = World(RedisDoor(f"redis://agent:pw@127.0.0.1:{own_redis.port}/0"), world.keys.group)
    limited.stand(a={P0})
    fence = limited.running("a", P0)
    assert limited.commit(P0, fence, START, offset(1)).result is CommitResult.DONE
    world.door.ask("ACL", "SETUSER", "agent", "-info")
    with pytest.raises(StoreUnavailable, match=r"(?i)permission"):  # it may be given them
        limited.fence("a", P0)


# --- many at once ---------------------------------------------------------------------------------


def test_of_many_that_ask_at_once_exactly_one_is_granted(real_world: World) -> None:
    world = real_world
    members = [f"m{n}" for n in range(8)]
    world.stand(**{m: {P0} if m == "m0" else set() for m in members})
    row = world.door.ask("HGET", world.keys.target, "m0")
    for member_id in members:  # as no coordinator would: the target does not decide
        world.door.ask("HSET", world.keys.target, member_id, row)
    granted: list[tuple[str, int]] = []
    start = threading.Barrier(len(members))

    def ask(member_id: str) -> None:
        start.wait()
        for _ in range(10):
            answer = world.acquire(member_id, P0)
            assert isinstance(answer, tuple)
            if isinstance(answer[0], Granted):
                granted.append((member_id, answer[0].fence))
                world.release(member_id, {P0: answer[0].fence})

    threads = [threading.Thread(target=ask, args=(m,)) for m in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    fences = [fence for _, fence in granted]
    assert granted and len(set(fences)) == len(fences)
    events = world.events()
    assert [e.kind for e in events] == ["acquired", "released"] * len(granted)
    assert [e.fence for e in events[::2]] == sorted(fences)


# --- streams and progress -------------------------------------------------------------------------


def test_a_stream_without_meta_is_named(real_world: World, group_name: str) -> None:
    events = EventStore(real_world.door)
    with pytest.raises(InvalidInput, match=f"stream '{group_name}' is not there"):
        events.partitions(group_name)
    events.ensure(group_name, 4)
    events.ensure(group_name, 4)
    assert events.partitions(group_name) == 4
    with pytest.raises(InvalidInput, match="has 4 partitions, not 5"):
        events.ensure(group_name, 5)
    real_world.door.ask("HSET", StreamKeys(group_name).meta, "partitions", "many")
    with pytest.raises(InvalidInput, match="many"):
        events.partitions(group_name)


def test_entries_are_read_in_ranges_open_at_their_start(real_world: World, group_name: str) -> None:
    events, partition = EventStore(real_world.door), Partition(group_name, 2)
    key = StreamKeys(group_name).entries(2)
    assert events.last_offset(partition) == START
    for n in range(1, 6):
        real_world.door.ask("XADD", key, f"{n}-0", "v", b"\xff" + str(n).encode())
    assert events.last_offset(partition) == offset(5)

    def read(after: Offset, upto: Offset) -> list[tuple[bytes, list[bytes]]]:
        chunks = events.read(partition, after, upto, "")
        return [(entry_id, fields) for chunk in chunks for entry_id, fields in chunk]

    assert read(offset(1), offset(3)) == [
        (b"2-0", [b"v", b"\xff2"]),
        (b"3-0", [b"v", b"\xff3"]),
    ]
    assert len(read(START, offset(5))) == 5
    assert read(offset(5), offset(5)) == []


def test_connections_that_threads_needed_at_one_moment_are_given_back_to_the_server(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = RedisDoor(own_redis.url)

    def connected() -> int:
        with redis.Redis.from_url(own_redis.url) as other:
            return int(other.info("clients")["connected_clients"]) - 1

    together = threading.Barrier(4)

    def ask() -> None:
        together.wait(10)
        door.ask("BLPOP", "nothing", "0.3")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connected() == 4
    door.ask("PING")
    assert connected() == 4, "they may be needed again"
    monkeypatch.setattr("agent.store.door.SPARE_S", -1.0)
    door.ask("PING")
    assert connected() == 0
    monkeypatch.setattr("agent.store.door.SPARE_S", 30.0)
    assert door.ask("PING") == b"PONG"
    door.close()
    assert connected() == 0


def test_waiting_for_hints_ends_with_the_first_one(real_world: World) -> None:
    world = real_world
    world.configure()
    keys = world.keys
    streams = keys.calls, keys.hints("a"), keys.control
    after = world.store.last_hints(*streams)
    timer = threading.Timer(0.05, lambda: world.request_rebalance("now"))
    timer.start()
    hints = world.store.wait_hints(after, 20_000)
    timer.join()
    assert hints.reasons == {"now"}
    assert hints.after == world.store.last_hints(*streams) != after


def test_progress_comes_back_as_it_was_written(real_world: World) -> None:
    real_world.stand(a={P0})
    health = ConsumerHealth(
        state="stalled", why="größer", batch=2**40, rows_per_second=0.25, dead_letters=3
    )
    real_world.store.write_progress("a", health)
    assert real_world.store.progress("a") == health


# --- a Redis that lost its last writes ------------------------------------------------------------


def test_no_fence_is_given_twice_by_a_redis_that_lost_its_last_writes(
    own_redis: EmbeddedRedis, own_world: World
) -> None:
    world = own_world
    world.stand(a={P0}, b=set())
    first = world.running("a", P0)
    assert world.commit(P0, first, START, offset(1)).applied
    log, size = appended(own_redis)

    world.release("a", {P0: first})
    world.assign(b={P0})
    lost = world.running("b", P0)
    assert lost == first + 1
    assert world.commit(P0, lost, offset(1), offset(2), "b").applied
    own_redis.kill()
    with log.open("r+b") as file:
        file.truncate(size)
    own_redis.start()

    # Redis is back at `first`, locked by `a`; `b` believes in a fence that Redis forgot.
    group = world.read()
    assert (group.grants[P0].fence, group.offsets[P0]) == (first, offset(1))
    assert world.commit(P0, lost, offset(2), offset(3), "b").result is CommitResult.FENCED
    assert world.renew("b", Claim(P0, lost)).held == (False,)
    assert world.acquire("b", P0) is Refusal.NO_INCARNATION
    world.release("a", {P0: first})
    world.set_incarnation(2)
    world.assign(b={P0})
    fence = world.fence("b", P0, incarnation=2)
    assert fence == 2 * INCARNATION_STEP + 1 > lost
    assert world.commit(P0, lost, offset(1), offset(2), "b").result is CommitResult.FENCED
    assert world.commit(P0, fence, offset(1), offset(2), "b").result is CommitResult.DONE


def appended(server: EmbeddedRedis) -> tuple[Path, int]:
    """The appendonly file and its size: Redis writes to it before it replies."""
    (log,) = server.folder.rglob("*.incr.aof")
    return log, log.stat().st_size
