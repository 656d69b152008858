"""The command `bench dashboard`: its rows, and what they say where nothing could be measured."""

import io
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.models import Group, StoredMap
from dashboard.records.queries import ownership as queries
from tests.bench import apart, long_history, screen
from tests.bench.apart import NotMeasured

WHY = "there is no such machine"
AIMS = {
    "tick_quiet_100k_ms": ("ms", 10),
    "tick_5000_empty_ms": ("ms", 100),
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
    "history_50m_rows_ms": ("ms", 20),
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


def test_what_is_logged_while_it_is_measured_is_not_in_the_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def values(*programs: str) -> list[float]:
        print("consumer ends")
        raise NotMeasured(WHY)

    monkeypatch.setattr(apart, "values", values)
    call_command("bench", "dashboard", "--json")
    said = capsys.readouterr()
    assert len(json.loads(said.out)["rows"]) == len(AIMS)
    assert "consumer ends" in said.err


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

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotMeasured, match="there is no Chromium here"):
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


# --- 50 million rows ------------------------------------------------------------------------------


@pytest.fixture
def long_group(db: None, monkeypatch: pytest.MonkeyPatch) -> Group:
    """Of the same form, with few rows, in the test's own database."""
    monkeypatch.setattr(long_history, "ROWS", 42_000)
    monkeypatch.setattr(long_history, "ASKED", 3)
    begun_ms = int(time.time() * 1000) - long_history.ROWS * long_history.STEP_MS
    group = Group.objects.get(pk=long_history.make_group(begun_ms))
    with connection.cursor() as cursor:
        values = {"group_id": group.pk, "begun_ms": begun_ms, "rows": long_history.ROWS}
        cursor.connection.execute(long_history.FILL, {**values, "first": 0, "past": 42_000})
    long_history.store_maps(group.pk, begun_ms)
    return group


def test_it_is_not_begun_where_there_is_no_room(tmp_path: Path) -> None:
    long_history.check_room(tmp_path, rows=1)
    needed = re.escape(f"{tmp_path} has ") + r"[\d.]+ GB free, 1000000000000 rows need 200000\.0 GB"
    with pytest.raises(NotMeasured, match=needed):
        long_history.check_room(tmp_path, rows=10**12)


def test_its_maps_are_those_of_its_rows(long_group: Group) -> None:
    stored = StoredMap.objects.order_by("at_ms").last()
    assert stored is not None
    found = queries.at(long_group, stored.at_ms)
    StoredMap.objects.all().delete()
    made = queries.at(long_group, stored.at_ms)
    assert found.owners() == made.owners()
    assert found.fence.tolist() == made.fence.tolist()
    assert found.since_ms.tolist() == made.since_ms.tolist()


def test_its_views_look_up_by_the_indexes_that_it_makes(long_group: Group) -> None:
    at_ms = StoredMap.objects.latest("at_ms").at_ms
    with CaptureQueriesContext(connection) as captured:
        long_history.picture(long_group, 17)
        long_history.table(long_group, 17)
        long_history.map_at(long_group, at_ms + 1)
    used: set[str] = set()
    for query in captured.captured_queries:
        if long_history.TABLE in query["sql"]:
            used |= looked_up(query["sql"])
    assert used <= {*long_history.INDEXES}, used
    assert used


def looked_up(sql: str) -> set[str]:
    """Names of the indexes of tenures that a query uses; it reads nothing else of them."""
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + sql.replace("%", "%%"))
        plan = [row[3] for row in cursor.fetchall()]
    assert not [line for line in plan if re.match(r"SCAN (dashboard_tenure|[bt]\b)", line)], plan
    return {name for line in plan for name in re.findall(r"INDEX (\S*tenure\S*)", line)}
