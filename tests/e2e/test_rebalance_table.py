"""The command `rebalance_table`, with real processes and light consumers."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 170


def test_a_group_that_one_member_leaves_processes_every_message(tmp_path: Path) -> None:
    told = ("--messages", "300000", "--repeat", "1", "--rows", "1", "--out", str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "rebalance_table", *told, "--json"],
        cwd=ROOT,
        env={**os.environ, "EVENKEEL_DATA": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [row] = found["rows"]
    assert (row["coordination"], row["strategy"], row["rebalances"]) == ("server", "sticky", 1)
    assert row["median_ms"] == row["min_ms"] == row["max_ms"] == row["runs_ms"][0] > 0
    assert json.loads((tmp_path / "out/rebalance_table.json").read_text()) == found
    assert row["partitions_moved"] >= 1
    assert "Plotly.react" in (tmp_path / "out/rebalance_table.html").read_text()
