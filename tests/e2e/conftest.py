"""What end-to-end tests share: an environment with the agent alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def agent_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment, set up as the README says for a machine that runs only agents."""
    venv = tmp_path_factory.mktemp("agent") / "venv"
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q"]
    for command in (
        [sys.executable, "-m", "venv", str(venv)],
        [*pip, "--require-hashes", "-r", "requirements-agent.lock"],
        [*pip, "--no-deps", "."],
    ):
        subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    return venv
