"""What a Redis user may do: the rules as texts, and addresses with and without a login."""

import re
from pathlib import Path

import pytest

from assignment import lua, rights
from assignment.lua import script
from assignment.rights import (
    Server,
    has_login,
    login_of,
    token_file_in,
    with_login,
    with_token_file,
    without_login,
)

URL = "redis://127.0.0.1:6379/0"


def test_what_the_scripts_call_is_read_off_them() -> None:
    """A command that is no literal would be missing from the rights."""
    for name in lua.names():
        text = re.sub(r"--.*", "", script(name))
        of_redis = r"(?:redis\.p?call|(?<![.\w])call)\("  # Lua's own pcall is none
        calls = len(re.findall(of_redis, text))
        assert len(re.findall(of_redis + r"\s*'[A-Z]+'", text)) == calls > 0, name
    found = lua.commands_in(
        "redis.call('XGROUP', 'CREATE', k) redis.pcall(\n'XADD', k) call('GET', 'a')"
    )
    assert found == {"xgroup|create", "xadd", "get"}


def test_a_script_that_calls_another_command_gives_its_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rights.agent_commands.cache_clear()
    monkeypatch.setattr(lua, "script", lambda name: "redis.call('ZCARD', KEYS[1])")
    assert "zcard" in rights.agent_commands()
    rights.agent_commands.cache_clear()


def test_a_producers_user_may_not_read() -> None:
    assert not {"xrange", "xread", "xrevrange", "xtrim", "del", "xdel"} & set(
        rights.producer_commands()
    )


def test_what_is_run_as_reading_only_writes_nothing() -> None:
    """But for what a common part defines and it does not call."""
    read_only = [name for name in lua.names() if lua.reads_only(name)]
    assert read_only == ["appended", "bound", "look"]
    reads = {"hmget", "exists", "xrange", "xrevrange", "xinfo|stream"}
    assert all(lua.commands_in(lua.own_text(name)) <= reads for name in read_only)


@pytest.mark.parametrize("reads_only", [True, False])
def test_nothing_is_allowed_that_rules_other_users_or_scripts(reads_only: bool) -> None:
    server = Server(reads_only, db=3)
    for rules in (
        rights.agent_rules(server, "g", "s"),
        rights.producer_rules(server, "s"),
    ):
        allowed = {rule[1:] for rule in rules if rule.startswith("+")}
        assert not {
            a for a in allowed if a.startswith(("@", "eval", "script", "acl", "config"))
        } - {
            "evalsha",
            "evalsha_ro",
        }
        assert "-@all" in rules and "resetchannels" in rules and "select|3" in allowed
        assert ("%R~s:meta" in rules) is reads_only


def test_a_prefix_is_no_pattern() -> None:
    assert r"~e\*\[k\]:celery:*" in rights.broker_rules(Server(reads_only=True), "e*[k]")


@pytest.mark.parametrize(
    ("url", "has"),
    [
        (URL, False),
        ("redis://:p@h:1/0", True),
        ("redis://u:p@h:1", True),
        ("unix:///run/r.sock?db=1", False),
        ("unix:///run/r.sock?password=p", True),
        ("redis://[", False),
    ],
)
def test_whether_an_address_has_a_login(url: str, has: bool) -> None:
    assert has_login(url) is has


def test_a_login_is_put_into_an_address_and_taken_out() -> None:
    user, password = login_of("ekt_a/b")
    assert rights.is_of_token(user)
    assert rights.user_in(with_login(URL, "ekt_a/b")) == user
    assert password == "ekt_a/b"
    assert with_login("redis://u:p@h:1", "t") == "redis://u:p@h:1"
    assert without_login(with_login(URL, "ekt_a-b")) == URL
    assert without_login("rediss://u:p@h:1/2?password=x&db=1") == "rediss://h:1/2?db=1"


def test_an_address_may_name_the_file_of_its_token() -> None:
    named = with_token_file(f"{URL}?db=2", Path("/a b/token"))
    assert token_file_in(named) == "/a b/token"
    assert has_login(named)
    assert without_login(named) == f"{URL}?db=2"
    assert token_file_in(URL) == token_file_in("redis://[") == ""
