"""Folders among everybody's temporary files: our own, or refused."""

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agent import private
from agent.config import parse
from agent.consumer.socket import ConsumerSocket, SocketUnusable
from agent.private import make_own, own_name
from agent.state.folders import StateDirUnusable, claim_state_dir

GIVEN = [
    *("--group", "g", "--token", "t", "--dashboard", "http://127.0.0.1:1"),
    *("--redis-url", "redis://127.0.0.1:1/0", "--name", "box", "--", "true"),
]


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for everybody's temporary files, this process's too."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else has made the agents' folder."""
    found_by = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        found = found_by(path)
        is_theirs = path.name == own_name()
        return os.stat_result((*found[:4], 54_321, *found[5:])) if is_theirs else found

    monkeypatch.setattr(Path, "lstat", lstat)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def never() -> bool:
    return False


def test_what_agents_make_by_default_is_closed_from_their_folder_down(shared: Path) -> None:
    config = parse(GIVEN, {})
    assert config.socket.parent == shared / own_name()
    assert config.state_root == shared / own_name() / "g"
    (shared / own_name()).mkdir()
    (shared / own_name()).chmod(0o755)
    folder, held = claim_state_dir(config.state_root, never)
    os.close(held)
    made = [shared / own_name(), config.state_root, folder]
    assert [mode(path) for path in made] == [0o700] * 3


def test_the_socket_lies_in_the_runtime_folder_where_it_is_ours(
    shared: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    environ = {"XDG_RUNTIME_DIR": str(run)}
    assert parse(GIVEN, environ).socket.parent == run / own_name()
    assert parse(GIVEN, environ).state_root == shared / own_name() / "g"
    run.chmod(0o755)
    assert parse(GIVEN, environ).socket.parent == shared / own_name()
    assert parse(GIVEN, {"XDG_RUNTIME_DIR": "run"}).socket.parent == shared / own_name()


def test_folders_that_somebody_else_made_first_are_refused(
    shared: Path, another_user: None
) -> None:
    (shared / own_name()).mkdir()
    config = parse(GIVEN, {})
    with pytest.raises(StateDirUnusable, match=f"{own_name()} belongs to another user"):
        claim_state_dir(config.state_root, never)
    with pytest.raises(SocketUnusable, match=f"{own_name()} belongs to another user"):
        ConsumerSocket(config.socket, lambda event: None)
    assert list((shared / own_name()).iterdir()) == []


def test_a_link_is_refused(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (shared / own_name()).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="is a link: remove it, or choose another folder"):
        make_own(shared / own_name() / "g", closed=False)


def test_a_chosen_folder_below_everybodys_is_looked_at_too(shared: Path) -> None:
    (shared / "open").mkdir()
    (shared / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="open can be written to by everybody"):
        make_own(shared / "open" / "state", closed=True)


def test_folders_above_the_program_are_not_looked_at(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can exchange them can exchange the program."""
    assert Path(__file__).resolve().parents[2] in private.ABOVE_US
    (shared / "checkout").mkdir()
    (shared / "checkout").chmod(0o777)
    monkeypatch.setattr(private, "ABOVE_US", frozenset({shared / "checkout"}))
    make_own(shared / "checkout" / "state", closed=True)
    (shared / "checkout" / "open").mkdir()
    (shared / "checkout" / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="open can be written to by everybody"):
        make_own(shared / "checkout" / "open" / "state", closed=True)


def test_a_chosen_folder_that_others_could_exchange_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="open can be written to by everybody"):
        make_own(tmp_path / "open" / "state", closed=True)
    (tmp_path / "open").chmod(0o770)
    make_own(tmp_path / "open" / "state", closed=True)
    theirs = pwd.struct_passwd(("somebody", "x", 54_321, os.getegid(), "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [theirs])
    with pytest.raises(PermissionError, match=r"by others of its group \(somebody\)"):
        make_own(tmp_path / "open" / "state", closed=True)


def test_a_chosen_folder_keeps_its_mode_and_the_agents_part_is_closed(tmp_path: Path) -> None:
    root = tmp_path / "state"
    (root / "agent-0").mkdir(parents=True)
    for path in (root, root / "agent-0"):
        path.chmod(0o755)
    folder, held = claim_state_dir(root, never)
    os.close(held)
    assert (mode(root), mode(folder)) == (0o755, 0o700)


def test_a_socket_may_lie_in_everybodys_folder(shared: Path) -> None:
    consumer_socket = ConsumerSocket(shared / "a.sock", lambda event: None)
    assert mode(shared / "a.sock") & 0o077 == 0
    consumer_socket.close()
    assert mode(shared) == 0o777 | stat.S_ISVTX


TOLD = (
    "import atexit, os, runpy, sys; os.umask(0o022);"
    "atexit.register(lambda: print(oct(os.umask(0)), file=sys.stderr));"
    "name, *sys.argv[1:] = sys.argv[1:]; runpy.run_module(name, run_name='__main__')"
)


@pytest.mark.parametrize(
    "program",
    [
        "agent --help",
        "agent scale-down --help",
        "agent.producer --help",
        "agent.pipelines.load --help",
        "agent.pipelines.light",
        "agent.pipelines.counters",
        "agent.pipelines.flights",
    ],
)
def test_what_a_process_makes_is_its_owners_alone(program: str, tmp_path: Path) -> None:
    """Consumers find no agent here; the last two are the Spark runner's."""
    process = subprocess.run(
        [sys.executable, "-c", TOLD, *program.split()],
        env={**os.environ, "EVENKEEL_AGENT_SOCKET": str(tmp_path / "nobody.sock")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.stderr.splitlines()[-1] == oct(0o077), process.stderr
