"""GET /groups/<name>/balance/ and its figures as JSON."""

import re
from typing import Any

from django.test import Client

from dashboard.models import Group
from dashboard.pages import texts
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import settle


def figures(visitor: Client, group: Group) -> Any:
    return visitor.get(f"/groups/{group.name}/balance/charts.json").json()


def test_one_point_per_rebalance(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    before = figures(visitor, group)["rebalances"]["data"]
    agents[0].leave()
    settle(group, agents[1:])
    after = figures(visitor, group)["rebalances"]["data"]
    by_name = {trace["name"]: trace for trace in after}
    assert {len(trace["x"]) for trace in before if "customdata" in trace} == {1}
    assert {len(trace["x"]) for trace in after if "customdata" in trace} == {2}
    assert by_name["balance degree"]["y"] == [0, 0]
    assert by_name["stickiness"]["y"] == [None, 0.5]
    assert "acquire" in by_name


def test_what_holds_until_the_next_rebalance_is_drawn_as_steps(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    figure = figures(visitor, group)["rebalances"]
    lines = [trace for trace in figure["data"] if "lines" in trace.get("mode", "")]
    assert [(line["shape"], line["yaxis"]) for line in lines] == [("hv", "y")]
    (line,) = lines
    assert line["y"] == [0, 0]
    assert line["x"][1] == figure["layout"]["xaxis"]["range"][1], "until now"


def test_charts_over_time_have_one_range_and_every_rebalance(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    agents[0].leave()
    settle(group, agents[1:])
    found = figures(visitor, group)
    over_time = [found["rebalances"], found["flow"]]
    rows = list(group.rebalances.order_by("at_ms"))
    times = [texts.exact(row.at_ms) for row in rows]
    first, last = over_time[0]["layout"]["xaxis"]["range"]
    assert first <= times[0] < times[1] <= last
    for figure in over_time:
        assert figure["layout"]["xaxis"]["range"] == [first, last]
        assert [shape["x0"] for shape in figure["layout"]["shapes"]] == times
        points = [trace for trace in figure["data"] if "customdata" in trace]
        assert points
        for trace in points:
            assert trace["x"] == times
            assert trace["customdata"] == [f"{r.incarnation}/{r.target_epoch}/" for r in rows]
    page = visitor.get(f"/groups/{group.name}/balance/").content.decode()
    (base,) = re.findall(r'data-history="([^"]+)"', page)
    assert visitor.get(base + over_time[1]["data"][-1]["customdata"][0]).status_code == 200


def test_a_group_without_any_rebalance_has_charts(visitor: Client, group: Group) -> None:
    found = figures(visitor, group)
    assert found["rebalances"]["data"][0]["x"] == found["flow"]["layout"]["shapes"] == []


def test_partitions_per_member(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    loads = figures(visitor, group)["loads"]
    assert loads["data"][0]["y"] == [2, 2]
    assert loads["layout"]["shapes"][0]["y0"] == 2


def test_samples_become_lag_and_throughput(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    lag, rate, _ = figures(visitor, group)["flow"]["data"]
    assert lag["y"] == [0]
    assert rate["y"] == [None]


def test_the_page_is_readable_without_a_script(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/balance/").content.decode()
    assert "The same as a table" in page
    row = group.rebalances.get()
    assert f"/groups/{group.name}/history/{row.incarnation}/{row.target_epoch}/" in page


def test_uirevision_is_constant(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    for figure in figures(visitor, group).values():
        assert figure["layout"]["uirevision"] == "keep"
