"""The tables of the page are what runs have left: no more, no less, and nothing of this machine."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from assignment.errors import InvalidInput
from dashboard.evaluation import measured
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.matrix import ROW, folder_name
from dashboard.evaluation.measured import FAULT_COLUMNS, NOT_RUN, TABLE_COLUMNS, UNKNOWN, put
from dashboard.evaluation.table import ROWS, Measured, result
from dashboard.evaluation.table_report import RESULT
from dashboard.management.commands.write_measured import PAGE

FLAP = Asked(faults=("flap",), fast=True)
SETTING = {"version": "0.2.0", "code": "abc", "cores": 2}
HELD = {
    "exit": 0,
    "vacuous": False,
    "violations": [],
    "recovered_ms": 1_000,
    "bound_ms": 5_300,
    "moves": 4,
    "avoidable_moves": 0,
    "unaffected_paused": 0.0,
    "refused_commits": 3,
    "lost": 0,
    "doubled": 0,
    "destroyed": 0,
    "setting": SETTING,
    "ended_on": "2026-11-22",
}


def cells(lines: list[str], *first: str) -> dict[str, str]:
    """Of the row that begins with these, by column, as somebody reads them from the page."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    head, _, *body = rows
    [found] = [row for row in body if row[: len(first)] == list(first)]
    return dict(zip(head, found, strict=True))


def row(seed: int, **more: Any) -> dict[Asked, Mapping[str, Any]]:
    asked = replace(FLAP, seed=seed)
    return {asked: {**HELD, "options": " ".join(asked.options()), **more}}


def test_a_row_is_what_its_runs_came_to() -> None:
    stored = {
        **row(1),
        **row(2, recovered_ms=3_000, moves=5, unaffected_paused=0.25),
        **row(3, exit=1, recovered_ms=9_000, violations=["late, see /tmp/x-1/logs"], lost=2),
        **row(4, exit=2, vacuous=True, recovered_ms=1, moves=0),
        **row(5, exit=3, error="no disk", ended_on="2026-11-23"),
    }
    stored[Asked(faults=("flap",))] = {**HELD, "recovered_ms": 77_000}  # of another table
    lines = measured.fault_tables([FLAP], stored)["faults-fast"]
    assert cells(lines, "flap", "server") == {
        "fault": "flap",
        "coordination": "server",
        "runs": "5",
        "held": "2",
        "vacuous": "1",
        "recovered, median / max ms": "3,000 / 9,000",
        "bound ms": "5,300",
        "moves, median": "4",
        "avoidable, median": "0",
        "unaffected paused, max share": "0.25",
        "refused commits, sum": "9",
        "lost": "2",
        "doubled": "0",
        "destroyed": "0",
    }
    assert lines[4:] == [
        "- 5 runs, 2026-11-22 to 2026-11-23: version 0.2.0, code abc, cores 2.",
        "- violated: `chaos --fault flap --seed 3 --fast`: `late, see …`",
        "- vacuous or not healed: `chaos --fault flap --seed 4 --fast`",
        "- failed: `chaos --fault flap --seed 5 --fast`: `no disk`",
    ]


def test_what_has_not_been_run_says_so_and_nothing_else() -> None:
    client = replace(FLAP, coordination="client")
    spark = replace(FLAP, consumer="spark")
    tables = measured.fault_tables([FLAP, client, spark], row(1))
    assert cells(tables["faults-fast"], "flap", "server")["runs"] == "1"
    missing = ["flap", "client", NOT_RUN, *[UNKNOWN] * (len(FAULT_COLUMNS) - 3)]
    assert list(cells(tables["faults-fast"], "flap", "client").values()) == missing
    assert cells(tables["faults-spark"], "flap", "server")["runs"] == NOT_RUN
    assert tables["faults-spark"][3:] == [""]


def test_the_rebalance_table_is_what_the_command_left() -> None:
    def runs(*times: int) -> list[Measured]:
        return [
            Measured(took_ms=t, rebalances=1, partitions_moved=1, paused_partition_ms=2 * t)
            for t in times
        ]

    made = result({ROWS[0]: runs(9_000, 11_000), ROWS[2]: runs(10_000, 10_500)}, "light")
    found = {**made, "messages": 1_000_000, "setting": SETTING, "ended_on": "2026-11-22"}
    lines = measured.rebalance_table(json.loads(json.dumps(found)))
    assert list(cells(lines, "server", "sticky", "no", "1").values())[4:] == [
        *("2", "10,000", "9,000", "11,000", "1", "20,000", "600,181", "54.6 x")
    ]
    assert list(cells(lines, "client", "averagely", "no", "2").values())[4:] == [
        *(NOT_RUN, *[UNKNOWN] * 5, "767,318", UNKNOWN)
    ]
    assert cells(lines, "server", "sticky", "yes", "1")["RocketMQ report ms"] == UNKNOWN
    assert lines[2 + len(ROWS) :] == [
        "",
        "- 1,000,000 messages, light consumers.",
        "- 4 runs, 2026-11-22: version 0.2.0, code abc, cores 2.",
        "- (server, sticky) - (client, averagely), one rebalance:"
        " median -250, 95 %: -1,000 to 500, p = 1, of 2 pairs (ms).",
        "- (server, sticky) - (client, averagely), two rebalances: unknown, of 0 pairs (ms).",
        "- (server, sticky) - (client, averagely), as a share of the latter:"
        " median -2.62%, 95 %: -10.00% to 4.76%, p = 1, of 2 pairs.",
        f"- Test: {made['test']['name']}.",
    ]
    nothing = measured.rebalance_table(None)
    assert [cells(nothing, *first)["runs"] for first in keys()] == [NOT_RUN] * len(ROWS)


def keys() -> list[tuple[str, ...]]:
    rows = map(asdict, ROWS)
    return [
        (r["coordination"], r["strategy"], "yes" if r["learners"] else "no", str(r["rebalances"]))
        for r in rows
    ]


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n<!-- begin y -->\n<!-- end y -->\n"
    assert put(page, {"x": ["new"]}) == page.replace("old", "new")
    assert put(put(page, {"y": ["1"]}), {"y": []}) == page
    with pytest.raises(InvalidInput, match="no place for z"):
        put(page, {"z": []})


def test_the_command_writes_what_is_stored_and_leaves_the_rest(tmp_path: Path) -> None:
    asked = Asked(faults=("minor-kill",), seed=1, fast=True)
    folder = tmp_path / "runs" / folder_name(asked)
    folder.mkdir(parents=True)
    values = {**HELD, "options": "--fault minor-kill", "asked": asked.values()}
    (folder / ROW).write_text(json.dumps(values))
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    call_command("write_measured", "--runs", str(tmp_path / "runs"), "--page", str(page))
    lines = page.read_text().splitlines()
    table = lines[lines.index("<!-- begin faults-fast -->") + 1 :]
    table = table[: table.index("<!-- end faults-fast -->")]
    assert cells(table, "minor-kill", "server")["recovered, median / max ms"] == "1,000 / 1,000"
    assert cells(table, "minor-kill", "client")["runs"] == NOT_RUN

    def beyond(text: str) -> str:
        return text.partition("<!-- end faults-spark -->")[2]

    assert beyond(page.read_text()) == beyond(PAGE.read_text())


def test_runs_are_kept_beside_the_page_until_newer_ones_replace_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())

    def write(name: str, *runs: Asked, **more: Any) -> list[dict[str, Any]]:
        for asked in runs:
            folder = tmp_path / name / folder_name(asked)
            folder.mkdir(parents=True)
            values = {**HELD, **more, "asked": asked.values(), "options": " ".join(asked.options())}
            (folder / ROW).write_text(json.dumps(values))
        call_command("write_measured", "--runs", str(tmp_path / name), "--page", str(page))
        return [json.loads(line) for line in page.with_suffix(".jsonl").read_text().splitlines()]

    one, two = (replace(FLAP, seed=seed) for seed in (1, 2))
    unknown = replace(FLAP, seed=3, agents=7)  # the page has no row for it
    first = write("first", two, one, unknown, exit=3, error="no disk, see /tmp/x/logs")
    assert [row["asked"] for row in first] == [
        {"faults": ["flap"], "seed": seed, "fast": True} for seed in (1, 2)
    ]
    assert first[0]["error"] == "no disk, see …"
    again = write("second", two)
    assert [row["exit"] for row in again] == [3, 0]
    assert "flap | server | 2 | 1 |" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name what was measured"),
        (("--runs", "."), "holds no run of docs/matrix.txt"),
        (("--table", "."), "the tables cannot be made: .*" + RESULT),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match=sentence) as refused:
        call_command("write_measured", *arguments)
    assert refused.value.returncode == 3


def test_a_table_has_a_cell_for_every_column() -> None:
    assert len(cells(measured.rebalance_table(None), "server", "sticky", "no", "1")) == len(
        TABLE_COLUMNS
    )
