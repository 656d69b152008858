"""`up` as a whole: real flights through one Spark consumer, watched from a second terminal."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from dashboard.demo.embedded_redis import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 400


def manage(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", *arguments]


def status(data: Path) -> dict[str, Any]:
    done = subprocess.run(
        manage("status", "--data", str(data), "--json"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_up_processes_flights_and_tells_who_owns_what(tmp_path: Path) -> None:
    options = ("--consumers", "1", "--partitions", "3", "--speed", "0", "--seconds", "10")
    process = subprocess.Popen(
        manage("up", "--data", str(tmp_path), "--port", str(free_port()), *options),
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k not in ("REDIS_URL", "DATABASE_URL")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    give_up = threading.Timer(PATIENCE_S, process.terminate)
    give_up.start()
    assert process.stdout and process.stderr
    said, during = [], None
    for line in process.stderr:
        said.append(line)
        if line.startswith("ready:"):
            during = status(tmp_path)
    give_up.cancel()
    assert process.wait() == 0, "".join(said)
    last = json.loads(process.stdout.read().splitlines()[-1])
    assert during is not None, "".join(said)
    for seen in (during, last):
        assert seen["ready"] is True
        assert (seen["partitions"], seen["conflicts"]) == (3, 0)
        (member,) = seen["members"].values()
        assert member["owned"] == ["flights:0", "flights:1", "flights:2"]
        assert member["state"] == "ready"
        assert member["spark_application_id"].startswith("local-")
    assert last["processed"] > 0
    marks = [p for p in psutil.process_iter() if str(tmp_path) in environ_of(p)]
    assert marks == []


def environ_of(process: psutil.Process) -> str:
    try:
        return str(process.environ().get("EVENKEEL_DATA"))
    except psutil.Error:
        return ""
