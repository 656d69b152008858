"""What an agent is told when it starts: one clear sentence for each bad value."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import parse
from assignment.errors import InvalidInput
from assignment.rights import with_login, with_token_file

GOOD = [
    *("--group", "flights", "--dashboard", "http://127.0.0.1:8000", "--token", "t0ken"),
    *("--redis-url", "redis://127.0.0.1:6379/0", "--name", "box"),
]
COMMAND = ["--", "python", "-m", "pipeline"]


def test_flags_say_what_the_agent_is(tmp_path: Path) -> None:
    config = parse([*GOOD, "--state-dir", str(tmp_path), "--zone", "z1", *COMMAND], {})
    assert config.group == "flights"
    assert config.command == ("python", "-m", "pipeline")
    assert config.member_id.startswith("box-") and len(config.member_id) == len("box-") + 6
    assert config.snapshot_url == str(tmp_path / "snapshots")
    assert config.zone == "z1"


def test_the_environment_stands_in_for_flags() -> None:
    environ = {
        "EVENKEEL_GROUP": "flights",
        "EVENKEEL_DASHBOARD": "http://127.0.0.1:1/, https://two",
        "EVENKEEL_TOKEN": "t0ken",
        "EVENKEEL_REDIS_URL": "unix:///run/redis.sock",
        "EVENKEEL_CAPACITY": "2.5",
    }
    config = parse(COMMAND, environ)
    assert config.dashboards == ("http://127.0.0.1:1", "https://two")
    assert config.capacity == 2.5
    assert parse(["--group", "other", *COMMAND], environ).group == "other"


def test_two_agents_of_one_name_have_two_ids_and_secrets() -> None:
    one, two = parse([*GOOD, *COMMAND], {}), parse([*GOOD, *COMMAND], {})
    assert one.member_id != two.member_id
    assert one.secret != two.secret


def test_an_instance_is_the_member_of_every_process_under_its_name() -> None:
    one, two = (parse([*GOOD, "--instance", "east-1", *COMMAND], {}) for _ in range(2))
    assert one.member_id == two.member_id == one.instance == "east-1"
    assert one.secret != two.secret
    assert one.socket != two.socket
    assert parse([*GOOD, *COMMAND], {"EVENKEEL_INSTANCE": "west"}).member_id == "west"


def test_a_rotated_token_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    config = parse([*GOOD, "--token-file", str(file), *COMMAND], {})
    file.write_text("second\n")
    assert config.current_token() == "second"
    file.unlink()
    assert config.current_token() == "first"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["--group", ""], "--group is missing"),
        (["--group", "a b"], "group 'a b' is not a name"),
        (["--dashboard", "ftp://x"], "--dashboard 'ftp://x' is not of the form http://host:port"),
        (["--dashboard", "http://x:y"], "--dashboard: the address cannot be read"),
        (["--redis-url", "http://x"], "--redis-url 'http://x' is not of the form"),
        (["--token", ""], "no token"),
        (["--token", "a b"], "the token holds characters"),
        (["--token-file", "/no/such/file"], "--token-file /no/such/file cannot be read"),
        (["--capacity", "much"], "--capacity 'much' is not a number"),
        (["--capacity", "0"], "--capacity 0 is not above 0"),
        (["--name", "x" * 91], "is longer than 90 characters"),
        (["--instance", "a b"], "--instance 'a b' is not a name"),
        (["--instance", "x" * 91], "--instance 'xxx"),
        (["--socket", "/" + "x" * 101], "is longer than 100 bytes"),
        (["--attach"], "--attach needs --socket"),
        (["--attach", "--socket", "/tmp/s"], "--attach starts no consumer"),
        (["--dashboard", "http://10.0.0.1:8000"], "'http://10.0.0.1' is another machine"),
        (["--dashboard", "https://a, http://b"], "'http://b' is another machine"),
        (["--redis-url", "redis://u:p@10.0.0.1"], "'redis://10.0.0.1' is another machine"),
        (["--redis-url", "rediss://h?ssl_cert_reqs=none"], "'rediss://h' is another machine"),
        (["--redis-url", "rediss://h?ssl_check_hostname=0"], "'rediss://h' is another machine"),
        (["--snapshot-url", "memory://"], "--snapshot-url 'memory://' names no folder"),
        (["--ca-file", "/no/such/file"], "--ca-file /no/such/file cannot be read"),
        (["--ca-file", __file__], "holds no certificate in PEM form"),
    ],
)
def test_a_bad_value_is_named(changes: list[str], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse([*GOOD, *changes, *COMMAND], {})
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("partitions", "shown"),
    [
        ("many", "'many'"),
        ("0", "'0'"),
        ("-1", "'-1'"),
        ("100001", "'100001'"),
        ("9" * 5_000, f"'{'9' * 20}...'"),
    ],
)
def test_a_number_of_partitions_that_no_group_has_is_named(partitions: str, shown: str) -> None:
    flags = [*GOOD, "--coordination", "client", "--partitions", partitions, *COMMAND]
    with pytest.raises(InvalidInput) as caught:
        parse(flags, {})
    assert str(caught.value) == f"--partitions {shown} is not a whole number from 1 to 100000"


def test_no_command_is_bad() -> None:
    with pytest.raises(InvalidInput, match="no consumer"):
        parse(GOOD, {})


def test_a_password_is_not_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse([*GOOD, "--redis-url", "http://user:secret@host", *COMMAND], {})
    assert "secret" not in str(caught.value)


def test_bad_configuration_exits_2_with_one_sentence() -> None:
    command = [sys.executable, "-m", "agent", *GOOD, "--capacity", "-1", *COMMAND]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "evenkeel-agent: --capacity -1 is not above 0 and at most 1000\n"


def test_help_lists_the_exit_codes() -> None:
    command = [sys.executable, "-m", "agent", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "exit codes:" in shown and "EVENKEEL_TOKEN" in shown


def test_the_token_logs_in_to_redis_where_the_address_does_not(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    config = parse([*GOOD, "--token-file", str(file), *COMMAND], {})
    assert config.redis_token is not None and config.redis_token() == "first"
    assert config.consumer_redis_url == with_token_file("redis://127.0.0.1:6379/0", file)
    file.write_text("second\n")
    assert config.redis_token() == "second"
    config = parse([*GOOD, *COMMAND], {})
    assert config.consumer_redis_url == with_login("redis://127.0.0.1:6379/0", "t0ken")


def test_a_login_in_the_address_goes_before_the_token() -> None:
    own = ["--redis-url", "redis://u:p@127.0.0.1/0"]
    assert parse([*GOOD, *own, *COMMAND], {}).consumer_redis_url == own[1]


def test_with_redis_alone_nobody_needs_a_token() -> None:
    alone = ["--group", "g", "--coordination", "client", "--redis-url", "redis://127.0.0.1/0"]
    config = parse([*alone, "--stream", "s", "--partitions", "2", *COMMAND], {})
    assert config.redis_token is None
    assert config.consumer_redis_url == "redis://127.0.0.1/0"
