"""Users and scripts of Redis: put with a token, dropped with it, put back, on every node."""

import time
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from assignment import lua
from assignment.rights import user_of, with_login, without_login
from dashboard import coordinator
from dashboard.actions import groups, producers
from dashboard.agents import rights, tokens
from dashboard.agents.producer_token import ProducerToken
from dashboard.api import health
from dashboard.coordinator import tasks
from dashboard.demo.embedded_redis import USERS, EmbeddedRedis, wheel_binary
from dashboard.live import rights as live
from dashboard.live.connection import own_key, sync_client
from dashboard.live.scripts import script
from dashboard.models import AgentToken, AuditEntry, AuditSource, Group
from dashboard.records.audit import By
from tests.conftest import redis_62_binary
from tests.dashboard.agents import make_group
from tests.dashboard.conftest import Point
from tests.failover import pair_of, until

ANN = By("ann", AuditSource.PAGE)
pytestmark = pytest.mark.django_db(transaction=True)


def as_holder(url: str, token: str) -> Any:
    """A client with the token's login."""
    own = with_login(without_login(url), token)
    return redis.Redis.from_url(own, protocol=2, retry=Retry(NoBackoff(), 0))


@pytest.fixture
def own_group(point_at: Point, own_redis: EmbeddedRedis, group_name: str) -> Group:
    point_at(own_redis.url)
    return make_group(group_name)


def test_a_token_is_a_user_of_its_group_until_it_is_revoked(
    group: Group, redis_url: str, store: Any
) -> None:
    made = groups.create_token(group, ANN)
    client = as_holder(redis_url, made.text)
    assert client.hget(f"ek:{{{group.name}}}:meta", "coordination") == b"server"
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.hget("ek:{another}:meta", "coordination")
    assert client.evalsha(script("claim_turn").sha, 1, f"ek:{{{group.name}}}:meta", "a", 0) == -1
    groups.revoke_token(made.token, ANN)
    with pytest.raises(redis.ConnectionError):
        client.ping()


def test_rotating_ends_the_connections_of_the_old_one_only(group: Group, redis_url: str) -> None:
    old = groups.create_token(group, ANN)
    before = as_holder(redis_url, old.text)
    assert before.ping()
    new = groups.rotate_token(old.token, ANN)
    assert as_holder(redis_url, new.text).ping()
    with pytest.raises(redis.ConnectionError):
        before.ping()


def test_one_that_expired_or_was_revoked_elsewhere_goes_with_the_next_look(
    group: Group, redis_url: str
) -> None:
    made = [groups.create_token(group, ANN, name=name) for name in "abcd"]
    now = timezone.now()
    AgentToken.objects.filter(pk=made[0].token.pk).update(expires_at=now - timedelta(seconds=1))
    AgentToken.objects.filter(pk=made[1].token.pk).update(revoked_at=now)
    AgentToken.objects.filter(pk=made[2].token.pk).delete()
    rights.keep()
    for gone in made[:3]:
        with pytest.raises(redis.AuthenticationError):
            as_holder(redis_url, gone.text).ping()
    assert as_holder(redis_url, made[3].text).ping()


def test_users_are_there_before_the_first_connection_after_a_restart_and_scripts_soon(
    own_group: Group, own_redis: EmbeddedRedis
) -> None:
    made = groups.create_token(own_group, ANN)
    own_redis.kill()
    own_redis.start()
    client = as_holder(own_redis.url, made.text)
    assert client.ping()
    meta, sha = f"ek:{{{own_group.name}}}:meta", script("claim_turn").sha
    with pytest.raises(redis.exceptions.NoScriptError):
        client.evalsha(sha, 1, meta, "a", 0)
    rights.keep()
    assert client.evalsha(sha, 1, meta, "a", 0) == -1
    assert made.text not in (own_redis.folder / USERS).read_text()


def test_a_server_that_keeps_no_users_is_given_them_back(
    own_group: Group, own_redis: EmbeddedRedis
) -> None:
    made = groups.create_token(own_group, ANN)
    rights.keep()
    own_redis.kill()
    (own_redis.folder / USERS).unlink()
    own_redis.start()
    with pytest.raises(redis.AuthenticationError):
        as_holder(own_redis.url, made.text).ping()
    rights.keep()
    assert as_holder(own_redis.url, made.text).ping()


def test_users_that_an_older_server_cannot_read_keep_nobody_out(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis", binary=redis_62_binary())
    server.folder.mkdir()
    (server.folder / USERS).write_text("user ek-0123456789abcdef on %R~key +evalsha_ro\n")
    server.start()
    assert redis.Redis.from_url(server.url).execute_command("ACL", "USERS") == [b"default"]
    server.stop()


def test_a_replica_has_all_users_and_scripts(
    point_at: Point, tmp_path: Path, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pair_of(tmp_path, wheel_binary()) as pair:
        point_at(f"redis://:{pair.old.password}@127.0.0.1:{pair.old.port}/0")
        group = make_group(group_name)
        first = groups.create_token(group, ANN)
        pair.at_new.config_set("masterauth", pair.old.password)
        pair.at_new.replicaof("127.0.0.1", str(pair.old.port))
        until(lambda: pair.at_new.info("replication")["master_link_status"] == "up")
        rights.keep()
        second = groups.create_token(group, ANN)
        for made in (first, second):
            assert as_holder(pair.new.url, made.text).ping()
        found: Any = pair.at_new.script_exists(*(script(name).sha for name in lua.names()))
        assert all(found)
        groups.revoke_token(first.token, ANN)
        with pytest.raises(redis.AuthenticationError):
            as_holder(pair.new.url, first.text).ping()
        monkeypatch.setattr(rights, "COMPARE_EVERY_S", 0.0)
        pair.at_new.execute_command("ACL", "DELUSER", user_of(second.token.digest))
        pair.at_new.script_flush()  # started anew at the same address, between two looks
        rights.keep()
        assert as_holder(pair.new.url, second.text).ping()
        found = pair.at_new.script_exists(*(script(name).sha for name in lua.names()))
        assert all(found)
        as_before = ("on", f"#{first.token.digest}", "~*", "+ping")  # of before it was revoked
        pair.at_new.execute_command("ACL", "SETUSER", user_of(first.token.digest), *as_before)
        rights.keep()
        with pytest.raises(redis.AuthenticationError):
            as_holder(pair.new.url, first.text).ping()
        sync_client().close()


@pytest.mark.parametrize(
    "changed, value",
    [
        ("ANEW_EVERY_S", 0.0),  # long after
        ("_rules", lambda *_: "of another version"),
    ],
)
def test_all_users_are_made_anew_now_and_then_and_not_by_each_process(
    own_group: Group,
    own_redis: EmbeddedRedis,
    monkeypatch: pytest.MonkeyPatch,
    changed: str,
    value: Any,
) -> None:
    monkeypatch.setattr(rights, "COMPARE_EVERY_S", 0.0)
    made = groups.create_token(own_group, ANN)
    rights.keep()

    def may_ping() -> bool:
        user = sync_client().execute_command("ACL", "GETUSER", user_of(made.token.digest))
        return b"+ping" in dict(zip(user[::2], user[1::2], strict=True))[b"commands"]

    assert may_ping()
    anew_ms = live.compared().anew_ms
    sync_client().execute_command("ACL", "SETUSER", user_of(made.token.digest), "-ping")
    time.sleep(0.002)  # of its clock, which has milliseconds
    rights.keep()
    assert not may_ping()
    assert live.compared().at_ms > live.compared().anew_ms == anew_ms
    monkeypatch.setattr(rights, changed, value)
    rights.keep()
    assert may_ping()


@pytest.mark.parametrize("lacks", ["-acl", "-script"])
def test_where_no_users_may_be_made_all_log_in_as_before_and_the_page_says_so_once(
    own_group: Group, own_redis: EmbeddedRedis, point_at: Point, lacks: str
) -> None:
    visitor = Client()
    visitor.force_login(User.objects.create_user("ann"))
    admin = redis.Redis.from_url(own_redis.url)
    admin.execute_command("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", lacks)
    point_at(f"redis://app:pw@127.0.0.1:{own_redis.port}/0")
    made = groups.create_token(own_group, ANN)
    rights.keep()
    assert f"redis://app:pw@127.0.0.1:{own_redis.port}/0" in groups.agent_command(made, "http://d")
    page = visitor.get("/status/").content.decode()
    assert page.count("lets the dashboard make no users") == 1


def test_the_oldest_redis_is_said_to_let_a_stream_be_trimmed(
    point_at: Point, redis_62_server: EmbeddedRedis, group_name: str
) -> None:
    point_at(redis_62_server.url)
    made = groups.create_token(make_group(group_name), ANN)
    assert as_holder(redis_62_server.url, made.text).ping()
    warnings = health.look()["warnings"]
    assert any("could trim the stream" in one for one in warnings)


def test_the_command_that_is_printed_has_no_login_but_the_token(
    group: Group, redis_url: str
) -> None:
    made = groups.create_token(group, ANN)
    command = groups.agent_command(made, "http://d")
    assert f"EVENKEEL_TOKEN={made.text} EVENKEEL_REDIS_URL={without_login(redis_url)} " in command
    assert redis_url not in command


def test_a_producers_token_appends_until_it_is_revoked(group: Group, redis_url: str) -> None:
    out = StringIO()
    call_command("create_producer_token", group.stream, stdout=out)
    url = out.getvalue().partition("EVENKEEL_REDIS_URL=")[2].split()[0].strip("'")
    client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
    assert client.xadd(f"{{{group.stream}:0}}", {"a": "b"})
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.xrange(f"{{{group.stream}:0}}")
    rights.keep()
    assert client.ping()
    assert producers.revoke_tokens(group.stream, producers.TOKEN_NAME, ANN) == 1
    with pytest.raises(redis.ConnectionError):
        client.ping()
    token = ProducerToken.objects.get()
    assert user_of(token.digest) not in live.ours()
    assert {"create producer token", "revoke producer token"} <= set(
        AuditEntry.objects.values_list("action", flat=True)
    )


def test_celery_and_channels_have_a_user_of_their_own(
    group: Group, redis_url: str, group_name: str, store: Any
) -> None:
    login = live.broker_login()
    assert login
    rest = without_login(redis_url).partition("://")[2]
    client: Any = redis.Redis.from_url(f"redis://{login[0]}:{login[1]}@{rest}")
    assert client.lpush(f"{group_name}:celery:evenkeel", "x")
    assert client.publish(f"{group_name}:channels.x", "m") == 0
    for command in (
        ("HGETALL", f"ek:{{{group.name}}}:meta"),
        ("XTRIM", f"{{{group.stream}:0}}", "MAXLEN", "0"),
        ("ACL", "LIST"),
        ("CONFIG", "GET", "*"),
        ("FLUSHALL",),
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)
    assert coordinator.want_rebalance(group.name)
    users = {one["user"] for one in store.client_list()}
    assert login[0] in users


def test_a_stream_that_no_group_reads_has_no_producers(db: None) -> None:
    with pytest.raises(producers.InvalidInput, match="no group reads a stream 'nothing'"):
        producers.create_token("nothing", ANN)


def test_with_another_secret_key_the_broker_has_another_user_and_the_old_one_goes(
    group: Group, settings: Settings, store: Any
) -> None:
    old = live.broker_login()
    rights.keep()
    settings.SECRET_KEY = "another-" * 8
    new = live.broker_login()
    assert old and new and old[0] != new[0]
    rights.keep()
    there = {name.decode() for name in store.execute_command("ACL", "USERS")}
    assert new[0] in there and old[0] not in there


def test_a_database_that_is_away_leaves_users_as_they_are(
    group: Group, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    made = groups.create_token(group, ANN)

    def away(server: Any) -> Any:
        raise OperationalError("away")

    monkeypatch.setattr(rights, "_wanted", away)
    assert tasks.keep_users() == "the database is away"
    assert as_holder(redis_url, made.text).ping()


def test_a_token_of_before_there_were_users_has_one_with_the_first_look(
    group: Group, redis_url: str
) -> None:
    text = tokens.make()
    AgentToken.objects.create(
        group=group, name="old", digest=tokens.digest_of(text), created_by="ann"
    )
    assert tasks.keep_users() == "kept"
    assert as_holder(redis_url, text).hlen(f"ek:{{{group.name}}}:meta")


def test_one_that_a_late_comparison_put_back_goes_with_the_next(
    group: Group, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had read the database before the token was revoked."""
    made = groups.create_token(group, ANN)
    monkeypatch.setattr(rights, "COMPARE_EVERY_S", 0.0)
    rights.keep()
    wanted = rights._wanted(live.server())
    groups.revoke_token(made.token, ANN)
    live.compare(live.look(), wanted, live.ours(), anew=True)
    assert as_holder(redis_url, made.text).ping()
    sync_client().srem(own_key(live.USERS), user_of(made.token.digest))
    rights.keep()
    with pytest.raises(redis.AuthenticationError):
        as_holder(redis_url, made.text).ping()
