"""What people read of the rebalance table: a line for each row, and one HTML page."""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dashboard.evaluation.html_report import OWNERS, grid, page
from dashboard.evaluation.table import SIZE, Wanted

REPORT, RESULT = "rebalance_table.html", "rebalance_table.json"


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    for row in found["rows"]:
        yield (
            f"{row['coordination']:6} {row['strategy']:9} {'learners' if row['learners'] else '':8}"
            f" {row['rebalances']} rebalances: {row['median_ms']:9,.0f} ms"
            f" ({row['min_ms']:,} to {row['max_ms']:,}), {row['partitions_moved']:g} moved,"
            f" {row['paused_partition_ms']:,.0f} partition-ms paused"
        )
    for name, value in found["test"].items():
        yield f"{name}: {value}"


def write(found: Mapping[str, Any], folder: Path, wanted: Wanted) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).write_text(json.dumps(found, indent=1))
    parts = {
        f"{count} rebalance{'s' if count > 1 else ''}": chart(found["rows"], count)
        for count in (1, 2)
    }
    title = f"{wanted.messages:,} messages, {SIZE} partitions, {SIZE} consumers"
    tests = (f"<p>{html.escape(f'{n}: {value}')}</p>" for n, value in found["test"].items())
    body = f"{grid(COLUMNS, map(cells, found['rows']), numbers=COLUMNS[4:])}{''.join(tests)}"
    (folder / REPORT).write_text(page(title, body, parts))


COLUMNS = (
    *("coordination", "strategy", "consumer", "learners", "rebalances", "runs", "median, ms"),
    *("min, ms", "max, ms", "partitions moved", "paused, partition-ms"),
)


def cells(row: Mapping[str, Any]) -> list[str]:
    texts = [
        row["coordination"],
        row["strategy"],
        row["consumer"],
        "yes" if row["learners"] else "no",
    ]
    times = [row["median_ms"], row["min_ms"], row["max_ms"]]
    counts = [row["rebalances"], len(row["runs_ms"]), *times, row["partitions_moved"]]
    numbers = [*counts, row["paused_partition_ms"]]
    return [*texts, *(f"{number:,.10g}" for number in numbers)]


def chart(rows: Sequence[Mapping[str, Any]], rebalances: int) -> dict[str, Any]:
    """Every run a point."""
    data = [
        {
            "type": "box",
            "boxpoints": "all",
            "jitter": 0.3,
            "pointpos": 0,
            "name": f"{row['coordination']}, {row['strategy']}{learns(row)}",
            "y": row["runs_ms"],
            "marker": {"color": OWNERS[0]},
        }
        for row in rows
        if row["rebalances"] == rebalances
    ]
    y = {"title": {"text": "ms to the last commit"}, "rangemode": "tozero"}
    x = {"title": {"text": "coordination, strategy"}, "type": "category"}
    return {"data": data, "layout": {"xaxis": x, "yaxis": y, "height": 420, "showlegend": False}}


def learns(row: Mapping[str, Any]) -> str:
    return ", learners" if row["learners"] else ""
