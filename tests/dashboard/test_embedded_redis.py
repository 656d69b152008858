"""The embedded Redis: starts, says why it does not, keeps its data, leaves nothing behind."""

import os
import socket
import stat
from pathlib import Path

import pytest

from dashboard.demo import embedded_redis
from dashboard.demo.embedded_redis import (
    EmbeddedRedis,
    RedisNotStarted,
    external_url,
    server_binary,
    server_version,
    wheel_binary,
)


def say(server: EmbeddedRedis, *words: str) -> bytes:
    """One command over a bare socket."""
    with socket.create_connection(("127.0.0.1", server.port or 0), timeout=5) as connection:
        connection.sendall(f"AUTH {server.password}\r\n{' '.join(words)}\r\n".encode())
        answer = b""
        while answer.count(b"\r\n") < 2:
            answer += connection.recv(1_024)
        return answer.partition(b"\r\n")[2]


def test_it_keeps_port_password_and_data_over_a_stop_and_a_crash(own_redis: EmbeddedRedis) -> None:
    url = own_redis.url
    assert say(own_redis, "SET", "a", "1") == b"+OK\r\n"
    own_redis.stop()
    assert own_redis.pid is None
    assert own_redis.start() == url
    assert say(own_redis, "INCR", "a") == b":2\r\n"
    own_redis.kill()
    assert not own_redis.answers()
    assert own_redis.start() == url
    assert say(own_redis, "INCR", "a") == b":3\r\n"


def test_it_runs_with_appendonly_and_is_ended_with_its_process(own_redis: EmbeddedRedis) -> None:
    assert say(own_redis, "CONFIG", "GET", "appendonly").startswith(b"*2")
    pid = own_redis.pid
    assert pid
    own_redis.stop()
    own_redis.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "own, found",
    [(None, embedded_redis.ALLOCATOR["GLIBC_TUNABLES"]), ("glibc.malloc.check=0",) * 2],
    ids=["nothing said", "said by who starts it"],
)
def test_its_allocator_keeps_what_scripts_free(
    own: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if own is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", own)
    server = EmbeddedRedis(tmp_path / "redis", binary=wheel_binary())
    server.start()
    try:
        environment = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
    finally:
        server.stop()
    assert [v for v in environment if v.startswith(b"GLIBC")] == [
        f"GLIBC_TUNABLES={found}".encode()
    ]


def test_starting_twice_starts_once(own_redis: EmbeddedRedis) -> None:
    pid = own_redis.pid
    own_redis.start()
    assert own_redis.pid == pid


def test_a_taken_port_is_named_even_when_another_redis_answers_there(
    own_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    second = EmbeddedRedis(tmp_path / "second", port=own_redis.port, binary=wheel_binary())
    with pytest.raises(RedisNotStarted, match=f"port {own_redis.port}"):
        second.start()
    assert second.pid is None
    assert own_redis.answers()


def test_a_folder_has_one_server_at_a_time_and_the_next_one_has_its_address(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_redis, "STOP_TIMEOUT_S", 0.0)
    following = EmbeddedRedis(own_redis.folder, binary=wheel_binary())
    with pytest.raises(RedisNotStarted, match="another server runs over"):
        following.start()
    assert own_redis.answers()
    own_redis.kill()
    assert following.start() == own_redis.url
    following.stop()
    assert stat.S_IMODE((own_redis.folder / "address").stat().st_mode) == 0o600


def test_a_port_that_somebody_took_meanwhile_is_replaced_by_another(
    own_redis: EmbeddedRedis,
) -> None:
    port = own_redis.port
    own_redis.stop()
    with socket.create_server(("127.0.0.1", port or 0)):
        following = EmbeddedRedis(own_redis.folder, binary=wheel_binary())
        following.start()
    assert following.port != port and following.password == own_redis.password
    following.stop()


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RedisNotStarted, match=str(tmp_path / "file")):
        EmbeddedRedis(tmp_path / "file").start()


def test_broken_data_is_named_in_one_sentence(own_redis: EmbeddedRedis) -> None:
    own_redis.stop()
    for path in own_redis.folder.rglob("*aof*"):
        if path.is_file() and path.suffix != ".manifest":
            path.write_bytes(b"this is no data of Redis\n")
    with pytest.raises(RedisNotStarted, match="Redis did not start in") as caught:
        own_redis.start()
    assert "\n" not in str(caught.value)
    assert own_redis.pid is None


def test_the_password_is_not_in_the_list_of_processes(own_redis: EmbeddedRedis) -> None:
    command = Path(f"/proc/{own_redis.pid}/cmdline").read_bytes()
    assert own_redis.password.encode() not in command


def test_one_on_path_comes_before_the_wheel_when_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "redis-server"
    monkeypatch.setenv("PATH", str(tmp_path))
    for version, expected in (("7.4.1", program), ("5.0.14", wheel_binary())):
        program.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0'\n")
        program.chmod(0o755)
        assert server_binary() == expected


def test_where_there_is_no_server_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(embedded_redis.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RedisNotStarted, match="set REDIS_URL"):
        server_binary()


def test_a_program_that_tells_no_version_is_not_used(tmp_path: Path) -> None:
    assert server_version(tmp_path / "missing") == (0,)
    assert server_version(wheel_binary()) >= (7,)


def test_redis_url_comes_first() -> None:
    assert external_url({"REDIS_URL": "redis://x"}) == "redis://x"
    assert external_url({"REDIS_URL": ""}) is None
