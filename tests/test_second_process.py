"""A run of two processes says what one of one process would, however the second one ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.dashboard.agents import until
from tests.second_process import OWN

ROOT = Path(__file__).parents[1]
HERE = """
import os, pathlib
def test_here(): pathlib.Path("first").write_text(str(os.getpid()))
"""
THERE = """
import os, pathlib, pytest
def test_there(): pathlib.Path("second").write_text(str(os.getpid()))
@pytest.mark.parametrize("value", ["a", "b\\n", "ö"])
def test_values(value): assert value
@pytest.mark.skip(reason="planted, to be told")
def test_skipped(): pass
"""
WRONG = "def test_wrong(): assert 1 == 2, 'as planted'"
ENDS = "import os\ndef test_ends(): os._exit(0)\ndef test_after(): pass"
UNMADE = """
import pytest
@pytest.fixture
def unmade(): yield; raise OSError("not put away")
def test_it(unmade): pass
"""

FAILS_THEN = """
import pathlib, time
def test_here():
    deadline = time.monotonic() + 60
    while not pathlib.Path("second").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert False, "as planted"
"""
ENDLESS = """
import os, pathlib, time
def test_there():
    pathlib.Path("second").write_text(str(os.getpid()))
    time.sleep(600)
"""

KILLED_THEN = """
import os, pathlib, signal, time
def test_here():
    while not pathlib.Path("second").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
"""
ORPHANED = """
import os, pathlib, time
def test_there():
    first, deadline = os.getppid(), time.monotonic() + 60
    pathlib.Path("second").write_text(str(os.getpid()))
    while os.getppid() == first and time.monotonic() < deadline:
        time.sleep(0.01)
def test_after():
    pathlib.Path("after").touch()
"""


def run(folder: Path, there: str, *arguments: str, here: str = HERE) -> tuple[int, str]:
    """The exit code and what was said of a suite one of whose folders has these tests."""
    (folder / "own").mkdir()
    (folder / "pytest.ini").touch()
    (folder / "test_here.py").write_text(here)
    (folder / "own" / "test_there.py").write_text(there)
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "tests.second_process"]
    ran = subprocess.run(
        [*command, "--second", "own", *arguments],
        cwd=folder,
        env={
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TMPDIR": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_all_is_told_as_if_one_process_had_run_it(tmp_path: Path) -> None:
    code, said = run(tmp_path, THERE, "--durations=0", "-vv")
    assert code == 0, said
    assert re.search(r"5 passed, 1 skipped in ", said)
    assert "own/test_there.py:6: planted, to be told" in said
    assert re.search(r"s call +own/test_there.py::test_there", said)
    assert (tmp_path / "first").read_text() != (tmp_path / "second").read_text()


def test_what_was_not_chosen_is_not_run_there_either(tmp_path: Path) -> None:
    code, said = run(tmp_path, THERE, "-k", "not values and not skipped")
    assert code == 0, said
    assert "2 passed, 4 deselected" in said


def test_one_process_does_what_is_only_its_share(tmp_path: Path) -> None:
    code, said = run(tmp_path, THERE, "own", "-k", "values")
    assert code == 0, said
    assert "3 passed, 2 deselected" in said


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (WRONG, ["AssertionError: as planted", "1 failed, 1 passed"]),
        (ENDS, ["the second process ended with 0, 2 tests were not run", "1 failed, 1 passed"]),
        (UNMADE, ["OSError: not put away", "2 passed, 1 error"]),
    ],
)
def test_what_fails_there_fails_the_run(tmp_path: Path, there: str, told: list[str]) -> None:
    code, said = run(tmp_path, there)
    assert code == 1
    assert not [text for text in told if text not in said], said


def test_a_run_that_ends_early_ends_both(tmp_path: Path) -> None:
    code, said = run(tmp_path, ENDLESS, "-x", here=FAILS_THEN)
    assert code == 1
    assert "1 failed" in said and "stopping after 1 failures" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "second").read_text()), 0)


def test_the_second_process_does_not_outlive_one_that_was_killed(tmp_path: Path) -> None:
    assert run(tmp_path, ORPHANED, here=KILLED_THEN)[0] == -signal.SIGKILL
    second = int((tmp_path / "second").read_text())
    until(lambda: not lives(second))
    assert not (tmp_path / "after").exists()


def lives(pid: int) -> bool:
    """Who is dead may wait for somebody to ask how it ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("pattern", OWN)
def test_what_is_the_second_processs_own_is_there(pattern: str) -> None:
    assert list(ROOT.glob(pattern))
