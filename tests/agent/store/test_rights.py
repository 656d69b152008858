"""An agent's and a producer's user on real servers: what they may, and all that they may not."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from agent import scale_down
from agent.config import ExitCode
from agent.producer.library import Producer
from agent.store.door import LoginRefused, RedisDoor, ScriptCall, StoreUnavailable
from agent.store.events import EventStore
from assignment import lua, rights
from assignment.errors import InvalidInput
from assignment.rights import (
    Server,
    digest_of,
    user_of,
    with_login,
    with_token_file,
    without_login,
)
from assignment.types import START, Claim, Partition
from dashboard.demo.embedded_redis import EmbeddedRedis
from tests.contract.conftest import PATIENT
from tests.contract.world import P0, World, commit_of, offset

TOKEN = "ekt_a-token"
DENIED = (redis.exceptions.NoPermissionError,)
WITHOUT_KEYS = {
    *(
        "client|setinfo",
        "cluster|nodes",
        "cluster|slots",
        "discard",
        "exec",
        "info|replication",
        "info|server",
    ),
    *("multi", "ping", "time", "wait"),
}
KEY_AFTER = {"xread": ("STREAMS",), "evalsha": ("0" * 40, "1"), "evalsha_ro": ("0" * 40, "1")}
WRONG_FORM = ("wrong number of arguments", "unknown command", "unknown subcommand")


@dataclass
class Place:
    """`own` logs in by the token, `admin` as the dashboard does; the group reads P0's stream."""

    server: EmbeddedRedis
    reads_only: bool
    group: str

    def __post_init__(self) -> None:
        self.admin: Any = redis.Redis.from_url(self.server.url, protocol=2)
        for name in lua.names():
            self.admin.script_load(lua.script(name))
        self.allow(TOKEN, rights.agent_rules(self.on, self.group, P0.stream))
        self.url = without_login(self.server.url)
        self.door = RedisDoor(self.url, PATIENT, lambda: TOKEN)

    @property
    def on(self) -> Server:
        return Server(self.reads_only)

    def allow(self, token: str, rules: tuple[str, ...]) -> None:
        digest = digest_of(token)
        self.admin.execute_command(
            "ACL", "SETUSER", user_of(digest), "reset", "on", f"#{digest}", *rules
        )

    def revoke(self) -> None:
        self.admin.execute_command("ACL", "DELUSER", user_of(digest_of(TOKEN)))

    def client(self, token: str = TOKEN) -> Any:
        url = with_login(self.url, token)
        return redis.Redis.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))


@pytest.fixture(params=["valkey_server", "redis_62_server"])
def place(request: pytest.FixtureRequest, group_name: str) -> Iterator[Place]:
    server = request.getfixturevalue(request.param)
    made = Place(server, request.param == "valkey_server", group_name)
    yield made
    made.revoke()
    made.door.close()
    made.admin.close()


def test_it_may_all_that_an_agent_and_its_consumer_do(place: Place) -> None:
    by_dashboard = World(RedisDoor(place.server.url, PATIENT), place.group)
    by_dashboard.stand(a={P0})
    place.admin.hset(f"{P0.stream}:meta", "partitions", 1)
    world = World(place.door, place.group)
    assert place.door.is_appendonly() is None  # CONFIG is not for it
    fence = world.running("a", P0)
    assert world.renew("a", Claim(P0, fence)).held == (True,)
    (start,) = world.next_batch("a")
    events = EventStore(place.door)
    events.demand(start.replication_id)
    assert events.partitions(P0.stream) == 1
    assert events.bounds([(P0, START)], 10, 1_000)[0].to_offset == START
    events.wait([(P0, START)], 1)
    done = world.store.commit_many([commit_of(P0, fence, START, offset(1), changes=b"x")])
    assert done[0].applied
    entry = done[0].changelog_id
    assert world.snapshot(P0, fence, offset(1), entry) == "done"
    assert world.store.read_changelog(P0, "0-0", 10).committed == offset(1)
    keys = world.keys
    assert set(world.store.last_hints(keys.calls, keys.hints("a"))) == {keys.calls, keys.hints("a")}
    assert world.store.wait_hints({keys.calls: "0-0", keys.hints("a"): "0-0"}, 1).reasons
    events.store_counts(place.group, "a", {"n": b"1"})
    assert events.take_counts(place.group, "a", ["n"]) == {"n": b"1"}
    assert world.report("a", 1).status == "ok"
    assert world.sweep() == 0
    assert world.leave("a")


def test_several_partitions_are_asked_for_before_a_server_is_known(place: Place) -> None:
    """All of them by one pipeline: Redis 6.2 answers each that it knows no EVALSHA_RO."""
    by_dashboard = World(RedisDoor(place.server.url, PATIENT), place.group)
    by_dashboard.stand(a={P0})
    several = [Partition(P0.stream, number) for number in range(3)]
    bounds = EventStore(place.door).bounds([(of, START) for of in several], 10, 1_000)
    assert [one.to_offset for one in bounds] == [START] * 3


def test_nothing_of_another_group_can_be_written_or_its_own_stream_apart_read(
    place: Place,
) -> None:
    client = place.client()
    foreign = ("ek:{another}:meta", "ek:groups", "ek:known_groups", "ek:celery:evenkeel")
    foreign += (f"ek:{{{place.group}x}}:meta", f"{P0.stream}x:meta", f"{P0.stream}:groups")
    for key in foreign:
        for command in (
            ("HSET", key, "a", "1"),
            ("HGET", key, "a"),
            ("DEL", key),
            ("SET", key, "1"),
            ("GET", key),
            ("XADD", key, "*", "a", "b"),
            ("XRANGE", key, "-", "+"),
        ):
            with pytest.raises(DENIED):
                client.execute_command(*command)
    sha = place.admin.script_load("return redis.call('HGET', 'ek:{another}:meta', 'a')")
    with pytest.raises(redis.ResponseError, match=r"ACL failure in script|can't access"):
        client.evalsha(sha, 1, f"ek:{{{place.group}}}:meta")
    with pytest.raises(StoreUnavailable):  # no bug: rights are put right by a dashboard
        World(RedisDoor(place.url, PATIENT, lambda: TOKEN), "another").next_batch()


def test_whatever_it_may_ask_nothing_of_another_group_changes_or_is_told(place: Place) -> None:
    """Every command and every script of its own, on every key of another group, in every place."""
    other = f"{place.group}x"
    others = World(RedisDoor(place.server.url, PATIENT), other)
    others.stand(a={P0})
    others.running("a", P0)
    place.admin.hset("another-stream:meta", "partitions", 1)
    place.admin.xadd("{another-stream:0}", {"secret": "told"})
    foreign = [*place.admin.scan_iter(f"ek:{{{other}}}:*"), b"another-stream:meta"]
    foreign += [b"{another-stream:0}", f"{P0.stream}:groups".encode(), b"ek:groups"]
    before = {key: place.admin.dump(key) for key in foreign}
    client = place.client()
    own = [name for name in rights.agent_commands() if name not in WITHOUT_KEYS]
    own += [rights.READ_ONLY_SCRIPTS] if place.reads_only else []
    for key in map(bytes.decode, foreign):
        for name in own:
            command = (*name.upper().split("|"), *KEY_AFTER.get(name, ()), key)
            tries = (_refusal(client, *command, *["1"] * n) for n in range(8))
            error = next(e for e in tries if not any(text in str(e) for text in WRONG_FORM))
            assert isinstance(error, DENIED), (command, error)
    for name in lua.names():
        sha = place.admin.script_load(lua.script(name))
        for how in ("EVALSHA", "EVALSHA_RO")[: 1 + place.reads_only]:
            with pytest.raises(DENIED):
                client.execute_command(how, sha, 1, others.store.keys.meta, *["1"] * 8)
    assert {key: place.admin.dump(key) for key in foreign} == before
    place.admin.delete("another-stream:meta", "{another-stream:0}")


def test_its_stream_is_for_reading(place: Place) -> None:
    entries = f"{{{P0}}}"
    place.admin.delete(entries)
    place.admin.xadd(entries, {"a": "b"})
    client = place.client()
    assert len(client.xrange(entries)) == 1
    if not place.reads_only:
        return  # Redis 6.2 gives a key whole or not at all
    for command in (
        ("XTRIM", entries, "MAXLEN", "0"),
        ("DEL", entries),
        ("XADD", entries, "*", "a", "b"),
        ("XSETID", entries, "9-9"),
        ("HSET", f"{P0.stream}:meta", "partitions", "9"),
    ):
        with pytest.raises(DENIED):
            client.execute_command(*command)
    assert place.admin.xlen(entries) == 1


def test_no_command_outside_of_the_list_works(place: Place) -> None:
    client = place.client()
    before_login = {"auth", "hello", "quit", "reset"}
    allowed = {*rights.agent_commands(), rights.READ_ONLY_SCRIPTS, *before_login}
    allowed |= {"select", "info", "client"}  # with arguments of their own: below
    cat: Any = place.admin.acl_cat
    names = {str(name) for category in cat() for name in cat(category)} - allowed
    containers = {name.partition("|")[0] for name in names if "|" in name}
    if not place.reads_only:
        containers |= {"xgroup", "xinfo"}  # whole commands there, of which some are allowed
    tried = sorted(names - containers)
    assert len(tried) > 150
    for name in tried:
        # Some of the numbers of arguments is right; only then rights are looked at.
        refusals = [_refusal(client, *name.split("|"), *(["1"] * n)) for n in range(8)]
        # What the server's configuration allows to nobody is refused before rights are looked at.
        assert any(isinstance(e, DENIED) or "not allowed" in str(e) for e in refusals), name
    for command in (
        ("INFO",),
        ("INFO", "clients"),
        ("XINFO", "HELP"),
        ("XGROUP", "HELP"),
        ("SELECT", "1"),
        ("EVAL", "return 1", "0"),
        ("SCRIPT", "LOAD", "return 1"),
        ("ACL", "WHOAMI"),
        ("PUBLISH", "c", "m"),
        ("CLIENT", "LIST"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("CLIENT", "NO-EVICT", "on"),
    ):
        with pytest.raises(DENIED):
            client.execute_command(*command)


def _refusal(client: Any, *command: str) -> redis.RedisError:
    with pytest.raises(redis.RedisError) as caught:
        client.execute_command(*command)
    return caught.value


def test_revoking_cuts_its_connections_and_is_passing_trouble(place: Place) -> None:
    stream, heard = f"ek:{{{place.group}}}:control", []

    def wait() -> None:
        try:
            place.door.wait({stream: "0-0"}, 20_000, 1)
        except StoreUnavailable as error:
            heard.append(error)

    assert place.door.ask("EXISTS", stream) == 0
    waiting = threading.Thread(target=wait)
    waiting.start()
    by_name = f"user={user_of(digest_of(TOKEN))} "

    def blocked() -> list[str]:
        clients = place.admin.execute_command("CLIENT", "LIST").decode().splitlines()
        return [line for line in clients if by_name in line and "cmd=xread" in line]

    World(place.door, place.group).until(lambda: bool(blocked()))
    place.revoke()
    waiting.join(10)
    assert not waiting.is_alive() and heard
    with pytest.raises(LoginRefused, match="it knows no such token"):
        place.door.ask("EXISTS", stream)
    place.allow(TOKEN, rights.agent_rules(place.on, place.group, P0.stream))
    assert place.door.ask("EXISTS", stream) == 0


def test_a_token_is_asked_for_at_each_connection(place: Place) -> None:
    now = ["ekt_old"]
    door = RedisDoor(place.url, PATIENT, lambda: now[0])
    with pytest.raises(LoginRefused):
        door.ask("PING")
    now[0] = TOKEN
    assert door.ask("PING") == b"PONG"


def test_a_script_that_nobody_loaded_yet_is_passing_trouble(
    own_redis: EmbeddedRedis, group_name: str
) -> None:
    place = Place(own_redis, True, group_name)
    place.admin.script_flush()
    world = World(place.door, group_name)
    with pytest.raises(StoreUnavailable, match="script 'next_batch' yet: a dashboard"):
        world.next_batch()
    with pytest.raises(StoreUnavailable, match="script 'bound' yet"):
        EventStore(place.door).bounds([(P0, START)], 10, 1_000)
    for name in lua.names():
        place.admin.script_load(lua.script(name))
    assert EventStore(place.door).bounds([(P0, START)], 10, 1_000)[0].to_offset == START
    place.door.close()


def test_a_server_that_asks_nobody_for_a_login_is_used_without_one(
    own_redis: EmbeddedRedis,
) -> None:
    admin: Any = redis.Redis.from_url(own_redis.url, protocol=2)
    admin.execute_command("ACL", "SETUSER", "default", "nopass")
    url = without_login(own_redis.url)
    assert RedisDoor(url, PATIENT, lambda: TOKEN).ask("PING") == b"PONG"
    assert RedisDoor(with_login(url, TOKEN), PATIENT).ask("PING") == b"PONG"


def test_a_login_of_the_operators_own_goes_before_the_token(place: Place) -> None:
    door = RedisDoor(place.server.url, PATIENT, lambda: "ekt_unknown")
    assert door.ask("CONFIG", "GET", "appendonly")[1] == b"yes"
    wrong = RedisDoor(f"redis://:wrong@{place.url.partition('://')[2]}", PATIENT, lambda: TOKEN)
    with pytest.raises(InvalidInput, match="refuses the login"):
        wrong.ask("PING")


def test_a_producers_user_appends_and_reads_no_event(place: Place, group_name: str) -> None:
    stream, token = f"s-{group_name}", "ekp_a-token"
    place.admin.hset(f"{stream}:meta", "partitions", 2)
    place.allow(token, rights.producer_rules(place.on, stream))
    with Producer(with_login(place.url, token), stream, partitions=2) as producer:
        for number in range(10):
            producer.send(f"k{number}", {"n": number})
    entries = f"{{{stream}:0}}"
    assert place.admin.xlen(entries)
    client = place.client(token)
    for command in (
        ("XRANGE", entries, "-", "+"),
        ("XREAD", "STREAMS", entries, "0-0"),
        ("XTRIM", entries, "MAXLEN", "0"),
        ("XDEL", entries, "1-1"),
        ("DEL", entries),
        ("HSETNX", f"{stream}:meta", "partitions", "9"),
        ("XADD", "{another:0}", "*", "a", "b"),
        ("HGETALL", f"ek:{{{place.group}}}:meta"),
        ("EVAL", "return 1", "0"),
    ):
        with pytest.raises(DENIED):
            client.execute_command(*command)
    place.admin.execute_command("ACL", "DELUSER", user_of(digest_of(token)))


def test_a_token_in_a_file_is_read_at_each_connection(place: Place, tmp_path: Path) -> None:
    """So a consumer, which has no other, goes on after a rotation."""
    file = tmp_path / "token"
    door = RedisDoor(with_token_file(place.url, file), PATIENT)
    with pytest.raises(StoreUnavailable):
        door.ask("PING")
    file.write_text(f"{TOKEN}\n")
    assert door.ask("PING") == b"PONG"
    place.allow("ekt_new", rights.agent_rules(place.on, place.group, P0.stream))
    place.revoke()
    with pytest.raises(StoreUnavailable):
        door.ask("PING")
    file.write_text("ekt_new\n")
    assert door.ask("PING") == b"PONG"
    door.close()
    place.admin.execute_command("ACL", "DELUSER", user_of(digest_of("ekt_new")))


def test_a_stream_whose_ids_are_high_enough_needs_nobody_who_may_write_it(place: Place) -> None:
    """An agent that coordinates after lost writes; else it waits for a dashboard."""
    entries = f"{{{P0}}}"
    place.admin.delete(entries)
    place.admin.xadd(entries, {"a": "b"}, id="9-1")

    def lift(above: str) -> object:
        return place.door.run(ScriptCall("lift", (entries, f"{entries}:producers"), [above, "0-0"]))

    assert lift("8-0") == [0, b""]
    if place.reads_only:
        with pytest.raises(StoreUnavailable, match="waits for a dashboard, which may write"):
            lift("10-0")
    assert place.admin.xinfo_stream(entries)["last-generated-id"] == b"9-1"


def test_what_it_may_ask_is_nothing_that_the_server_calls_dangerous(place: Place) -> None:
    cat: Any = place.admin.acl_cat
    kinds = ("admin", "dangerous", "pubsub", "keyspace")
    risky = {str(name) for kind in kinds for name in cat(kind)}
    for commands in (rights.agent_commands(), rights.producer_commands()):
        found = {name for name in commands if {name, name.partition("|")[0]} & risky}
        parts_of_commands = {
            "client|setinfo",
            "cluster|nodes",
            "cluster|slots",
            "info|server",
            "info|replication",
        }
        of_keys = {"del", "exists", "pexpire", "pexpireat", "pttl", "wait"}
        assert found <= {*parts_of_commands, *of_keys}


def test_a_person_scales_down_with_the_token_too(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--group", place.group, "--redis-url", place.url, "--percent", "50", "--dry-run"]
    monkeypatch.delenv("EVENKEEL_TOKEN", raising=False)
    assert scale_down.main(asked) in (ExitCode.BAD_CONFIGURATION, ExitCode.REDIS_UNUSABLE)
    monkeypatch.setenv("EVENKEEL_TOKEN", TOKEN)
    assert scale_down.main(asked) == ExitCode.REFUSED
    assert f"group {place.group} is not in this Redis" in capsys.readouterr().err
