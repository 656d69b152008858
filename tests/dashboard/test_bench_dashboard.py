"""The command `bench dashboard`: its rows, and what they say where nothing could be measured."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.bench import apart, screen
from tests.bench.apart import NotMeasured
from tests.e2e.browser import chromium

WHY = "there is no such machine"
AIMS = {
    "history_events_per_second": ("1/s", 20_000),
    "history_behind_s": ("s", 15),
    "map_at_20k_ms": ("ms", 5),
    "map_at_100k_ms": ("ms", 20),
    "ownership_over_time_ms": ("ms", 500),
    "page_p95_20k_ms": ("ms", 150),
    "page_p95_100k_ms": ("ms", 150),
    "change_to_screen_p50_ms": ("ms", 300),
    "change_to_screen_p95_ms": ("ms", 300),
    "redraw_20k_ms": ("ms", 16),
    "redraw_100k_ms": ("ms", 16),
}


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("bench", "dashboard", *words, stdout=out)
    return out.getvalue()


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def values(*programs: str) -> list[float]:
        raise NotMeasured(WHY)

    monkeypatch.setattr(apart, "values", values)


def test_what_was_not_measured_has_a_row_without_a_value(nothing_runs: None) -> None:
    rows = json.loads(run("--json"))["rows"]
    assert {row["name"]: (row["unit"], row["aim"]) for row in rows} == AIMS
    assert all(row["value"] is None and row["error"] == WHY for row in rows)
    assert len(rows) == len(AIMS)
    assert run().splitlines() == [f"{name}: not measured: {WHY}" for name in AIMS]


def test_rows_have_what_their_program_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "values", lambda program: [41.6, 250.4, 6_000.0, 200.0])
    of = "6000 locks of 20000 partitions, 200 a second"
    shown = apart.rows(screen.CHANGE, screen.changing)
    assert [(row["value"], row["yardstick"]) for row in shown] == [(42, of), (250, of)]
    assert not [row for row in shown if "error" in row]


def test_a_program_that_fails_is_quoted(capfd: pytest.CaptureFixture[str]) -> None:
    variables = {"PYTHONPATH": str(apart.ROOT)}
    program = "from tests.bench.apart import NotMeasured, progress; progress('begins'); {}"
    assert apart.told(["-c", program.format("print(1.5)")], variables) == "1.5\n"
    with pytest.raises(NotMeasured, match=f"^{WHY}$"):
        apart.told(["-c", program.format(f"raise NotMeasured({WHY!r})")], variables)
    with pytest.raises(NotMeasured, match=r"^ZeroDivisionError: division by zero$"):
        apart.told(["-c", program.format("1 / 0")], variables)
    assert capfd.readouterr().err.count("  begins\n") == 3, "whoever waits sees it"


def test_without_a_chromium_nothing_is_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def never(live: Any, page: Any, size: int) -> list[float]:
        raise AssertionError

    monkeypatch.setattr(chromium, "CHROMIUM", str(tmp_path / "none"))
    with pytest.raises(NotMeasured, match=f"there is no Chromium at {tmp_path / 'none'}"):
        screen.measure(never, 20)


def test_a_change_counts_from_its_grant_to_the_first_picture_of_it() -> None:
    said = [(1_000, [(7, 41.0)]), (1_300, [(7, 42.0), (8, 40.0)]), (1_900, [(7, 42.0)])]
    granted = {(7, 42): 1_100, (8, 40): 1_250}
    assert screen.waited(granted, screen.first_shown(said)) == [200, 50]
    with pytest.raises(NotMeasured, match="1 of 3 changes were not on the screen"):
        screen.waited({**granted, (9, 1): 1_200}, screen.first_shown(said))


def test_a_share_is_a_value_that_was_measured() -> None:
    assert apart.share(range(1, 201), 95) == 191
    assert apart.share([3, 1, 2], 50) == 2
    assert apart.share([5], 95) == 5
