"""What end-to-end tests share: an environment with the agent alone, Spark, a group to consume."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.spark.session import make_session
from tests.e2e.spark_world import SparkWorld

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


@pytest.fixture(scope="module")
def session() -> Any:
    """One Spark for all tests of a module."""
    made = make_session("test")
    yield made
    made.stop()


@pytest.fixture
def world(redis_url: str, group_name: str, tmp_path: Path) -> SparkWorld:
    return SparkWorld(redis_url, group_name, tmp_path)
