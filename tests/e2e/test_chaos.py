"""The command `chaos`, with real processes and light consumers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dashboard.evaluation.chaos.history import load
from dashboard.evaluation.chaos.judge import judge
from dashboard.evaluation.chaos.result import judged

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 280
ADDRESSES = ("REDIS_URL", "DATABASE_URL")


def chaos(data: Path, *arguments: str, tree: Path = ROOT) -> tuple[int, str, str]:
    """Of that tree, with this very Python: its manage.py would look for one of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "django", "chaos", *arguments, "--fast", "--json"],
        cwd=tree,
        env={
            **{name: value for name, value in os.environ.items() if name not in ADDRESSES},
            "PYTHONPATH": str(tree),
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            "EVENKEEL_DATA": str(data),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_group_whose_agent_is_killed_keeps_every_invariant(tmp_path: Path) -> None:
    options = ("--agents", "3", "--partitions", "6", "--seconds", "2", "--seed", "1")
    told = ("--fault", "minor-kill", "--out", str(tmp_path))
    code, out, said = chaos(tmp_path / "data", *told, *options)
    assert code == 0, said
    found: dict[str, Any] = json.loads(out)
    assert found["held"] and found["healed"] and not found["vacuous"]
    assert (found["lost"], found["doubled"], found["destroyed"]) == (0, 0, 0)
    assert json.loads((tmp_path / "result.json").read_text()) == found
    assert "Plotly.react" in (tmp_path / "report.html").read_text()
    stored = load(tmp_path)
    assert judged(stored, judge(stored))[0] == found
