"""A page that compares many runs: every run a row with its report, and coordinations and strategies
side by side.
"""

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.evaluation.chaos.report import verdict
from dashboard.evaluation.html_report import OWNERS, Figure, grid, page
from dashboard.evaluation.judge import FAILED
from dashboard.pages.texts import DASH, grouped

TEXTS = ("run", "verdict")
COLUMNS = {  # label -> figure of the result
    "recovered, ms": "recovered_ms",
    "bound, ms": "bound_ms",
    "moves": "moves",
    "avoidable": "avoidable_moves",
    "unaffected paused, share": "unaffected_paused",
    "refused commits": "refused_commits",
    "lost": "lost",
    "doubled": "doubled",
    "destroyed": "destroyed",
    "balance degree": "balance_degree",
    "stickiness, share": "stickiness",
}
NAMED = 2  # violations of one run; its report has them all
CHARTS = {
    "Time to recover": ("recovered_ms", "ms from the heal"),
    "Moves": ("moves", "partitions"),
    "Unaffected partitions that paused": ("unaffected_paused", "share"),
}
Row = Mapping[str, Any]


def comparison(rows: Sequence[Row]) -> str:
    by_mode: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if "faults" in row:  # else it failed: nothing is known of it
            by_mode[f"{row['coordination']}, {row['strategy']}"].append(row)
    cells = grid((*TEXTS, *COLUMNS), map(_cells, rows), numbers=COLUMNS, long=TEXTS)
    held = sum(row["exit"] == 0 for row in rows)
    said = f"<p>{held} of {len(rows)} runs held. A name opens the report of its run.</p>"
    parts = {title: _boxes(by_mode, *of) for title, of in CHARTS.items()}
    return page("chaos: comparison", f"{said}{cells}", parts)


def _cells(row: Row) -> list[str]:
    name = html.escape(str(row["options"]))
    link = f'<a href="{row["folder"]}/report.html">{name}</a>' if "faults" in row else name
    failed = row["exit"] == FAILED or "held" not in row
    wrong = [row["error"]] if "error" in row else row.get("violations", ())
    more = [f"and {len(wrong) - NAMED} more"] if len(wrong) > NAMED else []
    said = "".join(f"<br>{html.escape(text)}" for text in (*wrong[:NAMED], *more))
    told = f"{'failed' if failed else verdict(row)}{said}"
    return [link, told, *(_shown(row.get(of)) for of in COLUMNS.values())]


def _shown(value: float | None) -> str:
    if value is None:
        return DASH
    return grouped(value) if value == int(value) else grouped(value, decimals=2)


def _boxes(by_mode: Mapping[str, Sequence[Row]], name: str, unit: str) -> Figure | str:
    data = [
        {
            "type": "box",
            "boxpoints": "all",
            "jitter": 0.3,
            "pointpos": 0,
            "name": mode,
            "x": ["+".join(f["name"] for f in row["faults"]) for row in rows],
            "y": [row.get(name) for row in rows],
            "marker": {"color": colour},
            "showlegend": True,
        }
        for (mode, rows), colour in zip(by_mode.items(), OWNERS * 5, strict=False)
    ]
    if not data:
        return "No run has a result."
    y = {"title": {"text": unit}, "rangemode": "tozero"}
    x = {"title": {"text": "faults"}, "type": "category"}
    return {"data": data, "layout": {"xaxis": x, "yaxis": y, "boxmode": "group", "height": 520}}
