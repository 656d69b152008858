"""What attack_check tries with a token, or as another user of the machine."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from assignment.rights import Server, agent_rules, login_of
from assignment.wire import GroupKeys
from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.evaluation.attack import insiders
from dashboard.evaluation.attack.state import Witness
from dashboard.evaluation.attack.target import NotJudged, Target
from dashboard.live.connection import client_of
from tests.dashboard.attack.systems import answering, target_at


def test_a_revoked_token_that_is_still_taken_is_found() -> None:
    with answering(200, body=b'<tr data-token="3"><tr data-token="12">') as target:
        assert insiders.revoked(target).problems == ["200, and after a second it was answered 200"]
    with answering(401) as target, pytest.raises(NotJudged, match="was not taken"):
        insiders.revoked(target)


@pytest.fixture
def shared_redis(tmp_path: Path) -> Iterator[Target]:
    """A Redis of its own with two groups, and a user of the first one's token whose rules a test
    sets.
    """
    server = EmbeddedRedis(tmp_path, binary=wheel_binary())
    server.start()
    witness = Witness(server.url, Path(":memory:"))
    target = target_at(
        urlsplit(server.url).port or 0,
        redis_url=server.url,
        state=lambda: witness._of("redis", object(), witness._keys),
    )
    with client_of(server.url) as client:
        for name in (target.group, target.other):
            client.hset(GroupKeys(name).meta, "a", "b")
    yield target
    witness.close()
    server.stop()


def admit(target: Target, *rules: str) -> None:
    name, token = login_of(target.tokens[target.group])
    with client_of(target.redis_url) as client:
        client.execute_command("ACL", "SETUSER", name, "reset", "on", f">{token}", *rules)


def test_a_tokens_user_that_reaches_other_keys_or_commands_is_found(shared_redis: Target) -> None:
    own = agent_rules(Server(reads_only=True), shared_redis.group, shared_redis.group)
    admit(shared_redis, *own)
    assert insiders.redis_user(shared_redis).problems == []
    admit(shared_redis, *own, "%R~*")
    other = GroupKeys(shared_redis.other).meta
    assert f"HGETALL {other} was done" in insiders.redis_user(shared_redis).problems
    admit(shared_redis, *own, "+config|get", "+keys")
    found = insiders.redis_user(shared_redis).problems
    assert {"CONFIG GET * was done", "KEYS * was done"} <= set(found)
    admit(shared_redis, *own, "~*", "+del")
    assert any(
        problem.startswith("changed key") for problem in insiders.redis_user(shared_redis).problems
    )


def test_a_tokens_user_that_is_not_there_shows_nothing(shared_redis: Target) -> None:
    with pytest.raises(NotJudged, match="was answered"):
        insiders.redis_user(shared_redis)


def test_files_that_are_open_to_another_user_are_found(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "data" / "secret_key"
    folder.mkdir(mode=0o700)
    file.touch(0o600)
    target = target_at(1, data=folder)
    assert insiders.other_user(target).problems == []
    file.chmod(0o640)
    assert insiders.other_user(target).problems == ["secret_key is open to other users"]
    file.chmod(0o600)
    folder.chmod(0o711)
    assert "data is open to other users" in insiders.other_user(target).problems
