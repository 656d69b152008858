"""The agent without Django and Spark: its own lock in an empty environment is enough."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_django_is_not_there(agent_venv: Path, tmp_path: Path) -> None:
    code = "import agent.store, importlib.util; assert importlib.util.find_spec('django') is None"
    subprocess.run([agent_venv / "bin" / "python", "-c", code], cwd=tmp_path, check=True)


def test_agent_says_how_it_is_used(agent_venv: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        [agent_venv / "bin" / "evenkeel-agent", "--help"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "exit codes" in said.stdout


def test_agent_without_configuration_names_what_is_missing(
    agent_venv: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [agent_venv / "bin" / "evenkeel-agent", "--", "true"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 2
    assert "--group is missing" in done.stderr
