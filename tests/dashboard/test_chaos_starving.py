"""How long a process had no CPU, from what Linux tells of it."""

from pathlib import Path

import pytest

from dashboard.evaluation.chaos import starving
from dashboard.evaluation.chaos.starving import HARNESS, Starving

AGENT, CONSUMER = 11, 12
MS = starving.NS_A_MS


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(starving, "PROC", tmp_path)
    children = tmp_path / str(AGENT) / "task" / str(AGENT) / "children"
    children.parent.mkdir(parents=True)
    children.write_text(f"{CONSUMER} ")
    return tmp_path


def waited(proc: Path, pid: int, ms: int) -> None:
    told = proc / str(pid) / "task" / str(pid) / "schedstat"
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(f"5000000 {ms * MS} 17\n")


def test_an_agent_starved_as_long_as_it_or_its_consumer_had_no_cpu_since_the_first_look(
    proc: Path,
) -> None:
    looks = Starving(lambda: {"light-1": AGENT})
    waited(proc, AGENT, 1_000)
    waited(proc, CONSUMER, 50)
    assert looks.look() == {"light-1": 0, HARNESS: 0}
    waited(proc, AGENT, 1_020)
    waited(proc, CONSUMER, 450)
    assert looks.look() == {"light-1": 400, HARNESS: 0}
    waited(proc, AGENT, 1_120)
    assert looks.look() == {"light-1": 500, HARNESS: 0}


def test_who_is_not_there_starves_no_more(proc: Path) -> None:
    pids: dict[str, int | None] = {"redis": AGENT}
    looks = Starving(lambda: pids)
    waited(proc, AGENT, 10)
    looks.look()
    waited(proc, AGENT, 30)
    assert looks.look() == {"redis": 20, HARNESS: 0}
    for gone in (None, 999):
        pids["redis"] = gone
        assert looks.look() == {"redis": 20, HARNESS: 0}


def test_this_process_starved_no_longer_than_time_went_by(proc: Path) -> None:
    """However many threads it has: one that had to run was so late."""
    looks = Starving(dict)
    assert [looks.look(late_ms)[HARNESS] for late_ms in (0, 40, -1, 20)] == [0, 40, 40, 60]
