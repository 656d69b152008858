"""growth.svg: cost against partitions and members, as README.md shows it.

`python -m tests.bench.assign.chart` measures and draws anew; needs Chromium, in which the
dashboard's own Plotly draws.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from playwright.sync_api import sync_playwright

from tests.bench.assign.measure import figures
from tests.bench.assign.work import (
    EVENTS,
    MIXED_MEMBERS,
    MIXED_TOPICS,
    Work,
    mixed_fresh,
    mixed_leave,
    uniform,
)

HERE = Path(__file__).parent
PLOTLY = next((HERE.parents[2] / "dashboard/static/dashboard/vendor").glob("plotly-*.min.js"))
PARTITIONS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000, 4_000_000)
MEMBERS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
FIXED_MEMBERS, FIXED_PARTITIONS = 2_000, 1_000_000
ROUNDS = 5
WIDTH, HEIGHT = 1_000, 430  # pixels
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")


class Line(NamedTuple):
    """Ratios to the yardstick: ys at xs, in panel 1 (partitions) or 2 (members)."""

    name: str
    panel: int
    xs: list[int]
    ys: list[float]


def lines() -> Iterator[Line]:
    for event in EVENTS:
        yield line(event, 1, PARTITIONS, lambda p, e=event: uniform(p, FIXED_MEMBERS, e))
    for name, make in (("mixed fresh", mixed_fresh), ("mixed leave", mixed_leave)):
        sizes = [p // MIXED_TOPICS for p in PARTITIONS]
        found = line(name, 1, sizes, make)
        yield found._replace(xs=[x * MIXED_TOPICS for x in found.xs])
    for event in EVENTS:
        yield line(event, 2, MEMBERS, lambda n, e=event: uniform(FIXED_PARTITIONS, n, e))


def line(name: str, panel: int, xs: Any, make: Callable[[int], Work]) -> Line:
    ys = []
    for x in xs:
        ratio = figures({name: make(x)}, ROUNDS)["rows"][0]["ratio"]
        print(f"{name} at {x}: {ratio:.4f}", file=sys.stderr, flush=True)
        ys.append(ratio)
    return Line(name, panel, list(xs), ys)


def figure(drawn: list[Line]) -> dict[str, Any]:
    log: dict[str, Any] = {"type": "log", "dtick": 1, "showgrid": True}
    titles = (
        f"partitions ({FIXED_MEMBERS:,} members)",
        f"members ({FIXED_PARTITIONS:,} partitions)",
    )
    return {
        "data": [trace(one) for one in drawn],
        "layout": {
            "template": None,
            "title": {"text": "CPU as a ratio to a stable argsort of 1,000,000 random int32"},
            "xaxis": {**log, "domain": [0, 0.46], "title": {"text": titles[0]}},
            "xaxis2": {**log, "domain": [0.54, 1], "title": {"text": titles[1]}, "anchor": "y2"},
            "yaxis": {**log, "tickformat": "~g"},
            "yaxis2": {**log, "tickformat": "~g", "anchor": "x2", "matches": "y"},
            "legend": {"orientation": "h", "y": -0.25},
            "margin": {"l": 60, "r": 20, "t": 50, "b": 110},
            "font": {"family": "sans-serif"},
            "paper_bgcolor": "white",
        },
    }


def trace(one: Line) -> dict[str, Any]:
    mixed = f"mixed: {MIXED_MEMBERS} members, each half of {MIXED_TOPICS} topics, "
    names = list(dict.fromkeys((*EVENTS, "mixed fresh", "mixed leave")))
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": one.name.replace("mixed ", mixed),
        "x": one.xs,
        "y": one.ys,
        "xaxis": "x" if one.panel == 1 else "x2",
        "yaxis": "y" if one.panel == 1 else "y2",
        "showlegend": one.panel == 1,
        "line": {"color": COLOURS[names.index(one.name)]},
    }


def drawn_by_chromium(shown: dict[str, Any]) -> str:
    """The figure as SVG."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    call = (
        f"Plotly.toImage({json.dumps(shown)}, {{format: 'svg', width: {WIDTH}, height: {HEIGHT}}})"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_script_tag(path=PLOTLY)
        address = page.evaluate(call)
        browser.close()
    return unquote(address.partition(",")[2])


if __name__ == "__main__":
    (HERE / "growth.svg").write_text(drawn_by_chromium(figure(list(lines()))) + "\n")
