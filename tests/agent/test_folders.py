"""Which folder of state an agent takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.state import folders
from agent.state.folders import claim_state_dir

# An agent that is killed, and its consumer that has the lock a little longer.
ORPHANS = """
import os, signal, subprocess, sys
from pathlib import Path
from agent.state.folders import claim_state_dir
_, held = claim_state_dir(Path(sys.argv[1]), lambda: False)
waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
consumer = subprocess.Popen(waits, pass_fds=(held,))
print(consumer.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def orphan(root: Path) -> "subprocess.Popen[str]":
    """Its agent is gone; it ends when its standard input is closed."""
    agent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert agent.stdout and agent.stdout.readline()
    agent.wait()
    return agent


def never() -> bool:
    return False


def test_two_agents_have_two_folders(tmp_path: Path) -> None:
    first, held = claim_state_dir(tmp_path, never)
    second, also_held = claim_state_dir(tmp_path, never)
    assert (first.name, second.name) == ("agent-0", "agent-1")
    os.close(held)
    os.close(also_held)


def test_a_restarted_agent_waits_for_the_consumer_of_the_one_before(tmp_path: Path) -> None:
    left = orphan(tmp_path)
    assert left.stdin
    asked = []

    def stop() -> bool:
        """Asked while it waits: the consumer ends meanwhile."""
        asked.append(left.stdin.close())
        return False

    folder, held = claim_state_dir(tmp_path, stop)
    os.close(held)
    assert asked
    assert [path.name for path in tmp_path.iterdir()] == [folder.name] == ["agent-0"]


def test_the_wait_for_a_consumer_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "ORPHAN_WAIT_S", 0.0)
    left = orphan(tmp_path)
    folder, held = claim_state_dir(tmp_path, never)
    os.close(held)
    assert left.stdin
    left.stdin.close()
    assert folder.name == "agent-1"


def test_an_agent_that_is_asked_to_end_does_not_wait(tmp_path: Path) -> None:
    left = orphan(tmp_path)
    folder, held = claim_state_dir(tmp_path, lambda: True)
    os.close(held)
    assert left.stdin
    left.stdin.close()
    assert folder.name == "agent-1"
