"""The page of a run and the comparison of many stand alone, and every figure is one for Plotly."""

import json
import re
from typing import Any

import plotly.graph_objects as go
import pytest

from dashboard.evaluation.chaos.judge import judge
from dashboard.evaluation.chaos.report import comparison, report
from dashboard.evaluation.chaos.result import judged
from tests.dashboard.chaos_histories import Scene

FIGURES = re.compile(r"<script>(\[\{.*?\}\])\.forEach", re.DOTALL)


def figures_in(page: str) -> list[dict[str, Any]]:
    found = FIGURES.search(page)
    assert found is not None
    figures: list[dict[str, Any]] = json.loads(found[1].replace("<\\/", "</"))
    return figures


@pytest.fixture
def page() -> str:
    history = Scene().history()
    return report(history, *judged(history, judge(history)))


def test_every_figure_is_one_that_plotly_knows(page: str) -> None:
    figures = figures_in(page)
    assert len(figures) == page.count('<div id="p') == 5
    for figure in figures:
        go.Figure(figure)  # raises for a name or value that it does not know


def test_ownership_has_a_bar_for_each_grant_with_the_fault_behind_it(page: str) -> None:
    timeline = figures_in(page)[0]
    bars = {
        one["name"]: list(zip(one["y"], one["base"], one["x"], strict=True))
        for one in timeline["data"]
    }
    assert bars["light-1-aaaaaa"] == [("chaos:0", -5.0, 5.9), ("chaos:0", 3.0, 7.0)]
    assert ("chaos:0", 1.0, 1.9) in bars["light-2-bbbbbb"]
    fault = timeline["layout"]["shapes"][0]
    assert (fault["x0"], fault["x1"]) == (0.0, 2.0)


def test_a_page_reaches_nothing_else(page: str) -> None:
    outside = page.replace(page[page.index("<script>") : page.rindex("<script>")], "")
    assert "src=" not in outside and "http" not in outside
    assert "<td>—</td>" not in outside.partition("recovered_ms")[0]


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
        "recovered_ms": 100,
        "moves": 2,
    }
    failed = {"options": "--fault swap", "folder": "run-003", "exit": 3, "error": "no <disk>"}
    page = comparison(
        [{**row, "coordination": "server"}, {**row, "coordination": "client"}, failed]
    )
    times = figures_in(page)[0]
    assert {one["name"] for one in times["data"]} == {"server, sticky", "client, sticky", "?, ?"}
    assert 'href="run-001/report.html"' in page and "no &lt;disk&gt;" in page
    for figure in figures_in(page):
        go.Figure(figure)
