"""GET /groups/<name>/balance/ and its figures as JSON."""

from typing import Any

from django.test import Client

from dashboard.models import Group
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
    assert {len(trace["x"]) for trace in before} == {1}
    assert {len(trace["x"]) for trace in after} == {2}
    assert by_name["balance degree"]["y"] == [0, 0]
    assert by_name["stickiness"]["y"] == [None, 0.5]
    assert "acquire" in by_name


def test_partitions_per_member(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    loads = figures(visitor, group)["loads"]
    assert loads["data"][0]["y"] == [2, 2]
    assert loads["layout"]["shapes"][0]["y0"] == 2


def test_samples_become_lag_and_throughput(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    lag, rate = figures(visitor, group)["flow"]["data"]
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
