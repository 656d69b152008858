"""attack_check as it is called, on a real system, with few requests a route."""

import json
import os
import subprocess
import sys

import pytest

from dashboard.evaluation.attack.run import CHECKS
from tests.agent.conftest import ROOT


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_running_system_holds() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "attack_check", "--json", "--requests", "3", "--seed", "1"],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert [check["name"] for check in found["checks"]] == list(CHECKS)
    assert [check for check in found["checks"] if not check["held"]] == [], done.stderr[-3_000:]
    assert (found["ok"], found["server_errors"], done.returncode) == (True, 0, 0)
    assert found["requests"] > 200
