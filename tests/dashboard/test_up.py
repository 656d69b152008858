"""What `up` refuses, each time with one sentence, and a run of the dashboard alone."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dashboard.demo import options
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import Refused

ROOT = Path(__file__).resolve().parent.parent.parent


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("REDIS_URL", "DATABASE_URL")}


def command(data: Path, port: int, *arguments: str) -> list[str]:
    where = ("--data", str(data), "--port", str(port))
    return [sys.executable, "manage.py", "up", *where, *arguments]


def up(data: Path, *arguments: str, port: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(data, port or free_port(), *arguments),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def left_over(data: Path) -> list[psutil.Process]:
    """Processes of a tree over that folder, by their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("EVENKEEL_DATA") == str(data):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def test_taken_port_is_one_sentence(tmp_path: Path, taken_port: int) -> None:
    done = up(tmp_path, port=taken_port)
    assert done.returncode == 1
    assert done.stderr == (
        f"evenkeel: port {taken_port} is taken by another program: choose another one with --port\n"
    )


def test_too_little_memory_is_one_sentence() -> None:
    with pytest.raises(Refused, match=r"3 consumers need about 3540 MiB .* and 1000 MiB are free"):
        options.check_memory(3, free=1000)
    options.check_memory(3, free=4000)
    with pytest.raises(Refused, match="need about 4630 MiB"):
        options.check_memory(3, free=4000, webs=2, workers=3)


def test_folder_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "LOCK_WAIT_S", 0.0)
    held = options.lock_folder(tmp_path)
    with pytest.raises(Refused, match="is in use by another `up`"):
        options.lock_folder(tmp_path)
    os.close(held)
    os.close(options.lock_folder(tmp_path))


def test_damaged_database_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "evenkeel.sqlite3").write_bytes(b"no database" * 1000)
    done = up(tmp_path, "--no-demo")
    assert done.returncode == 1
    assert "evenkeel: the database cannot be used: file is not a database" in done.stderr
    assert "Traceback" not in done.stderr
    assert left_over(tmp_path) == []


def test_folder_that_redis_cannot_use_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "redis").write_text("a file")
    done = up(tmp_path, "--no-demo")
    assert done.returncode == 1
    assert f"Redis cannot write to {tmp_path / 'redis'}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--consumers", "0"), "'0' is not a whole number from 1 to 100"),
        (("--speed", "fast"), "'fast' is not a number from 0 up"),
        (("--seconds", "-1"), "'-1' is not a number from 0 up"),
        (("--port", "70000"), "'70000' is not a whole number from 1 to 65535"),
    ],
)
def test_wrong_option_is_named(tmp_path: Path, arguments: tuple[str, ...], named: str) -> None:
    done = up(tmp_path, *arguments)
    assert done.returncode == 2
    assert named in done.stderr


@pytest.mark.slow
def test_dashboard_alone_runs_and_leaves_nothing(tmp_path: Path) -> None:
    first = up(tmp_path, "--no-demo", "--seconds", "0")
    assert first.returncode == 0, first.stderr
    last = json.loads(first.stdout.splitlines()[-1])
    assert (last["ready"], last["members"]) == (True, {})
    reached = [path for path in tmp_path.rglob("*") if path.lstat().st_mode & 0o077]
    assert reached == [], "other users of the machine could read it"
    login = tmp_path / "login"
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    _, password = login.read_text().split()
    assert password in first.stderr
    assert left_over(tmp_path) == []
    assert password in ended_in_order_by(signal.SIGINT, tmp_path, free_port())


def ended_in_order_by(number: signal.Signals, data: Path, port: int) -> str:
    """What one said that ran until this signal."""
    process = subprocess.Popen(
        command(data, port, "--no-demo"),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stderr
    give_up = threading.Timer(120, process.kill)
    give_up.start()
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("running"):
            process.send_signal(number)
    give_up.cancel()
    assert process.wait() == 0, "".join(said)
    assert [line for line in said if line.startswith("stopping")] == [
        "stopping beat, worker\n",
        "stopping web\n",
        "stopping redis\n",
    ]
    assert json.loads(process.stdout.read().splitlines()[-1])["partitions"] == 0
    assert left_over(data) == []
    return "".join(said)


@pytest.mark.slow
def test_killed_up_is_followed_by_one_over_the_same_redis(tmp_path: Path) -> None:
    """Two servers on one append-only file would destroy it, and clients look for the old one."""
    port = free_port()
    killed = subprocess.Popen(
        command(tmp_path, port, "--no-demo"),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert killed.stderr
    for line in killed.stderr:
        if line.startswith("database"):  # Redis runs
            break
    address = (tmp_path / "redis" / "address").read_text()
    killed.kill()
    killed.wait()
    killed.stderr.close()
    ended_in_order_by(signal.SIGTERM, tmp_path, port)
    assert (tmp_path / "redis" / "address").read_text() == address
