"""The folder of a run: locked while its process lives, removed by the next one after a kill."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent.spark import session


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(session, "SHARED_MEMORY", tmp_path)
    return tmp_path


def test_folder_of_a_killed_process_is_removed_by_the_next(memory: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from agent.spark import session;"
        f"session.SHARED_MEMORY = Path({str(memory)!r});"
        "(session.fresh_folder() / 'plan.json').write_text('{}');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    (left,) = memory.iterdir()
    assert session.fresh_folder().exists()
    assert not left.exists()


def test_folder_of_a_living_process_stays(memory: Path) -> None:
    first = session.fresh_folder()
    assert session.fresh_folder() != first
    assert first.exists()
