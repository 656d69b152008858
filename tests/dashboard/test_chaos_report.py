"""The page of a run and the comparison of many stand alone, and every figure is one for Plotly."""

import json
import re
from collections import defaultdict
from typing import Any

import plotly.graph_objects as go
import pytest

from dashboard.evaluation.chaos.comparison import comparison
from dashboard.evaluation.chaos.judge import judge
from dashboard.evaluation.chaos.report import report
from dashboard.evaluation.chaos.result import judged
from tests.dashboard.chaos_histories import Scene

FIGURES = re.compile(r'<script type="application/json" id="figures">(.*?)</script>', re.DOTALL)
COLOUR = re.compile(r'"--[\w-]+"')  # a variable of page.css


def figures_in(page: str) -> list[dict[str, Any]]:
    found = FIGURES.search(page)
    assert found is not None
    css = page[: page.index("</style>")]
    assert all(f"{name.strip(chr(34))}:" in css for name in COLOUR.findall(found[1]))
    text = COLOUR.sub('"#123456"', found[1]).replace("<\\/", "</")
    return list(json.loads(text).values())


@pytest.fixture
def page() -> str:
    history = Scene().history()
    return report(history, *judged(history, judge(history)))


def test_every_figure_is_one_that_plotly_knows(page: str) -> None:
    figures = figures_in(page)
    assert len(figures) == page.count('<div class="chart" id="p') >= 4
    for figure in figures:
        go.Figure(figure)  # raises for a name or value that it does not know


def test_ownership_has_a_bar_for_each_grant_with_the_fault_behind_it(page: str) -> None:
    timeline = figures_in(page)[0]
    bars = {
        one["name"]: list(zip(one["y"], one["base"], one["x"], strict=True))
        for one in timeline["data"]
    }
    assert bars["light-1"] == [("chaos:0", -5.0, 5.9), ("chaos:0", 3.0, 7.0)]
    assert ("chaos:0", 1.0, 1.9) in bars["light-2"]
    fault = timeline["layout"]["shapes"][0]
    assert (fault["x0"], fault["x1"]) == (0.0, 2.0)


def test_an_agent_has_one_colour_in_all_charts_and_no_line_has_it(page: str) -> None:
    found = FIGURES.search(page)
    assert found is not None
    agents: dict[str, set[str]] = defaultdict(set)
    lines = set()
    for figure in json.loads(found[1]).values():
        for trace in figure["data"]:
            if trace["name"].startswith("light-"):
                agents[trace["name"]].add(trace["marker"]["color"])
            else:
                lines.add((trace.get("line") or trace["marker"])["color"])
    assert len(agents) == 2 and all(len(colours) == 1 for colours in agents.values())
    of_agents = set().union(*agents.values())
    assert len(of_agents) == 2 and not of_agents & lines


def test_charts_have_one_time_axis_titles_and_the_named_fault(page: str) -> None:
    timed = [f["layout"] for f in figures_in(page) if f["layout"].get("shapes")]
    assert len(timed) >= 4
    assert len({tuple(one["xaxis"]["range"]) for one in timed}) == 1
    for one in timed:
        assert one["xaxis"]["title"]["text"] and one["yaxis"]["title"]["text"]
        assert [note["text"] for note in one["annotations"]] == ["minor-kill light-1"]


def test_a_run_that_shows_nothing_does_not_say_held() -> None:
    scene = Scene()
    scene.acknowledged = 0
    history = scene.history()
    found, measured = judged(history, judge(history))
    found |= {"held": True, "vacuous": True}
    page = report(history, found, measured)
    assert "<h1>minor-kill: vacuous</h1>" in page and "shows nothing" in page


def test_a_page_reaches_nothing_else(page: str) -> None:
    outside = page.replace(page[page.index("<script>") : page.rindex("<script>")], "")
    assert "src=" not in outside and "http" not in outside and "url(" not in outside


def test_what_is_said_cannot_end_the_script() -> None:
    scene = Scene()
    scene.hurt = ("</script><b>",)
    history = scene.history()
    found, measured = judged(history, judge(history))
    found["violations"] = ["</script><b>"]
    page = report(history, found, measured)
    assert "</script><b>" not in page


def test_coordinations_are_compared_side_by_side() -> None:
    row = {
        "options": "--fault flap",
        "folder": "run-001",
        "exit": 0,
        "violations": [],
        "faults": [{"name": "flap"}],
        "strategy": "sticky",
        "held": True,
        "vacuous": False,
        "healed": True,
        "recovered_ms": 100,
        "moves": 2,
    }
    failed = {"options": "--fault swap", "folder": "run-003", "exit": 3, "error": "no <disk>"}
    page = comparison(
        [{**row, "coordination": "server"}, {**row, "coordination": "client"}, failed]
    )
    times = figures_in(page)[0]
    assert {one["name"] for one in times["data"]} == {"server, sticky", "client, sticky"}
    assert 'href="run-001/report.html"' in page and "no &lt;disk&gt;" in page
    for figure in figures_in(page):
        go.Figure(figure)
